import { Label } from 'react-aria-components/Label'
import { Radio, RadioGroup } from 'react-aria-components/RadioGroup'
import { TextBox } from '../../ui/fields.tsx'
import { Tick } from '../../ui/tick.tsx'
import { authority, missingPolicies } from '../words.ts'
import type { Draft, Faults } from './draft.ts'

interface Props {
  readonly draft: Draft
  readonly faults: Faults
  readonly onChange: (change: Partial<Draft>) => void
}

const policies = ['flag', 'deactivate', 'ignore'] as const
const limits = [
  { name: 'max_deactivate_pct', label: 'Rows missing or deactivated, at most (%)' },
  { name: 'max_deactivate', label: 'Rows missing or deactivated, at most' },
  { name: 'max_change_pct', label: 'Rows changed, at most (%)' },
  { name: 'min_rows', label: 'Rows read, at least' },
] as const

export function LimitsSection({ draft, faults, onChange }: Props) {
  return (
    <>
      <RadioGroup
        className="field"
        value={draft.missingPolicy}
        onChange={(value) => {
          const chosen = policies.find((each) => each === value)
          if (chosen !== undefined) onChange({ missingPolicy: chosen })
        }}
      >
        <Label>If a row is missing from the source</Label>
        <div className="choices choices-three">
          {policies.map((each) => (
            <Radio key={each} value={each} className="choice period">
              <span className="choice-title">{missingPolicies[each].title}</span>
              <span className="choice-help">{missingPolicies[each].help}</span>
            </Radio>
          ))}
        </div>
      </RadioGroup>
      {draft.dataset === 'people' && (
        <Tick
          label={authority.title}
          help={authority.help}
          isOn={draft.authoritative}
          onChange={(authoritative) => onChange({ authoritative })}
        />
      )}
      <div className="field">
        <h3>Limits of a run</h3>
        <p className="help">A run that exceeds one of these changes nothing until somebody approves it.</p>
        <div className="settings settings-small">
          {limits.map(({ name, label }) => (
            <TextBox
              key={name}
              label={label}
              isNumber
              value={draft.safety[name]}
              onChange={(text) => onChange({ safety: { ...draft.safety, [name]: text } })}
              error={faults[`safety.${name}`]}
            />
          ))}
        </div>
      </div>
    </>
  )
}
