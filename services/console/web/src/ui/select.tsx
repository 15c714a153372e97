import { Button } from 'react-aria-components/Button'
import { Label } from 'react-aria-components/Label'
import { ListBox, ListBoxItem } from 'react-aria-components/ListBox'
import { Popover } from 'react-aria-components/Popover'
import { Select as AriaSelect, SelectValue } from 'react-aria-components/Select'
import { Text } from 'react-aria-components/Text'
import { Icon } from './icon.tsx'

export interface Choice<Value extends string> {
  readonly value: Value
  readonly label: string
}

interface Props<Value extends string> {
  readonly label: string
  readonly isLabelHidden?: boolean
  readonly choices: readonly Choice<Value>[]
  readonly value: Value
  readonly onChange: (value: Value) => void
  readonly help?: string | undefined
}

export function Select<Value extends string>(props: Props<Value>) {
  const { label, isLabelHidden = false, choices, value, onChange, help } = props
  return (
    <AriaSelect
      className="select"
      {...(isLabelHidden ? { 'aria-label': label } : {})}
      value={value}
      onChange={(key) => {
        const chosen = choices.find((choice) => choice.value === key)
        if (chosen !== undefined) onChange(chosen.value)
      }}
    >
      {isLabelHidden ? undefined : <Label>{label}</Label>}
      <Button className="select-button">
        <SelectValue />
        <Icon name="chevron" size={16} />
      </Button>
      {help === undefined ? undefined : (
        <Text slot="description" className="help">
          {help}
        </Text>
      )}
      <Popover className="popover">
        <ListBox className="menu" items={choices}>
          {(choice) => (
            <ListBoxItem className="menu-item" id={choice.value} textValue={choice.label}>
              {({ isSelected }) => (
                <>
                  <span>{choice.label}</span>
                  {isSelected ? <Icon name="check" size={16} /> : undefined}
                </>
              )}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </AriaSelect>
  )
}
