import { Button as AriaButton } from 'react-aria-components/Button'
import { Disclosure, DisclosurePanel } from 'react-aria-components/Disclosure'
import { Label } from 'react-aria-components/Label'
import { Radio, RadioGroup } from 'react-aria-components/RadioGroup'
import type { Connector } from '../../api/sync.ts'
import { TextBox } from '../../ui/fields.tsx'
import { Icon, type IconName } from '../../ui/icon.tsx'
import { Select } from '../../ui/select.tsx'
import { Tick } from '../../ui/tick.tsx'
import { dayOf } from '../../ui/when.tsx'
import { type Draft, type Faults, startValues } from './draft.ts'
import type { Setting, SourceType } from './setting.ts'
import { shownSettings, sources } from './sources.ts'

interface TypeProps {
  readonly type: SourceType
  readonly onType: (change: Pick<Draft, 'type' | 'values' | 'secrets'>) => void
}

const types = ['csv', 'http_json', 'scim', 'ldap', 'sql'] as const satisfies readonly SourceType[]

const icons: Readonly<Record<SourceType, IconName>> = {
  csv: 'file',
  http_json: 'globe',
  scim: 'people',
  ldap: 'directory',
  sql: 'database',
}

export function TypeCards({ type, onType }: TypeProps) {
  return (
    <RadioGroup
      className="field"
      value={type}
      onChange={(value) => {
        const chosen = types.find((each) => each === value)
        if (chosen !== undefined) onType({ type: chosen, values: startValues(chosen), secrets: {} })
      }}
    >
      <Label className="for-listeners">Type of source</Label>
      <div className="cards source-cards">
        {types.map((each) => (
          <Radio key={each} value={each} className="choice">
            <Icon name={icons[each]} size={20} />
            <span className="choice-text">
              <span className="choice-title">{sources[each].title}</span>
              <span className="choice-help">{sources[each].description}</span>
            </span>
          </Radio>
        ))}
      </div>
    </RadioGroup>
  )
}

interface Props {
  readonly draft: Draft
  readonly faults: Faults
  readonly onChange: (change: Partial<Draft>) => void
  readonly set: Connector['secrets']
}

export function SourceSection({ draft, faults, onChange, set }: Props) {
  const { type, values, secrets } = draft
  const put = (name: string) => (text: string) => onChange({ values: { ...values, [name]: text } })
  const asked = shownSettings(type, values)
  const advanced = asked.filter(({ isAdvanced }) => isAdvanced)
  const show = (setting: Setting) => (
    <SettingField
      key={setting.name}
      setting={setting}
      value={values[setting.name] ?? ''}
      onChange={put(setting.name)}
      error={faults[`config.${setting.name}`]}
    />
  )
  return (
    <>
      <div className="settings">
        {asked.filter(({ isAdvanced }) => isAdvanced !== true).map(show)}
        {sources[type].secrets(values).map(({ name, label }) => {
          const since = set[name]?.updated_at
          return (
            <TextBox
              key={name}
              label={label}
              isSecret
              isOptional={since === undefined ? false : 'unmarked'}
              value={secrets[name] ?? ''}
              onChange={(text) => onChange({ secrets: { ...secrets, [name]: text } })}
              error={faults[`secrets.${name}`]}
              {...(since === undefined ? {} : { placeholder: '••••••••••••' })}
              help={
                since === undefined
                  ? 'Stored encrypted and never shown again.'
                  : `Set on ${dayOf(since)}. Leave it empty to keep it.`
              }
            />
          )
        })}
      </div>
      {advanced.length === 0 ? undefined : (
        <Disclosure
          className="disclosure"
          defaultExpanded={advanced.some(({ name, kind }) => kind !== 'choice' && (values[name] ?? '') !== '')}
        >
          <AriaButton slot="trigger" className="disclosure-button">
            <Icon name="chevron" size={16} />
            Advanced
          </AriaButton>
          <DisclosurePanel>
            <div className="settings">{advanced.map(show)}</div>
          </DisclosurePanel>
        </Disclosure>
      )}
    </>
  )
}

interface FieldProps {
  readonly setting: Setting
  readonly value: string
  readonly onChange: (value: string) => void
  readonly error: string | undefined
}

function SettingField({ setting, value, onChange, error }: FieldProps) {
  const { label, help, isRequired = false } = setting
  switch (setting.kind) {
    case 'choice':
      return <Select label={label} help={help} choices={setting.choices} value={value} onChange={onChange} />
    case 'yes':
      return <Tick label={label} help={help} isOn={value === 'yes'} onChange={(isOn) => onChange(isOn ? 'yes' : '')} />
    default:
      return (
        <TextBox
          label={label}
          value={value}
          onChange={onChange}
          error={error}
          isOptional={!isRequired}
          isNumber={setting.kind === 'number'}
          {...(help === undefined ? {} : { help })}
          {...(setting.placeholder === undefined ? {} : { placeholder: setting.placeholder })}
          {...(setting.kind === 'lines' ? { rows: 4 } : {})}
        />
      )
  }
}
