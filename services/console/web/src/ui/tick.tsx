import { Checkbox } from 'react-aria-components/Checkbox'
import { Icon } from './icon.tsx'

interface Props {
  readonly label: string
  readonly help?: string | undefined
  readonly isOn: boolean
  readonly onChange: (isOn: boolean) => void
}

export function Tick({ label, help, isOn, onChange }: Props) {
  return (
    <Checkbox className="tick-field" isSelected={isOn} onChange={onChange}>
      <span className="tick" aria-hidden="true">
        <Icon name="check" size={14} />
      </span>
      <span className="choice-text">
        <span>{label}</span>
        {help === undefined ? undefined : <span className="choice-help">{help}</span>}
      </span>
    </Checkbox>
  )
}
