import { type FieldSummary, datasets } from 'virtual:datasets'
import type { Connector } from '../../api/sync.ts'
import { Button } from '../../ui/button.tsx'
import { ComboBox } from '../../ui/combo-box.tsx'
import { TextBox } from '../../ui/fields.tsx'
import { Select } from '../../ui/select.tsx'
import type { Faults } from './draft.ts'
import { type RuleDraft, newRule, transformChoices } from './rules.ts'

interface Props {
  readonly dataset: Connector['dataset']
  readonly rules: readonly RuleDraft[]
  readonly onChange: (rules: readonly RuleDraft[]) => void
  readonly faults: Faults
  /** Columns of the source, if it was tested. */
  readonly columns: readonly string[]
}

const origins = [
  { value: 'source', label: 'The source' },
  { value: 'constant', label: 'A fixed value' },
] as const

const kept = { value: 'kept', label: 'As set by the API' } as const

/** Fields without a rule use the column of the same name. */
export function MappingSection({ dataset, rules, onChange, faults, columns }: Props) {
  const fields = datasets[dataset]
  const required = fields.filter(({ isRequired }) => isRequired).map(({ name }) => name)
  const missing = required.filter((name) => !rules.some(({ target }) => target === name))
  const put = (place: number, change: Partial<RuleDraft>) =>
    onChange(rules.map((rule, at) => (at === place ? { ...rule, ...change } : rule)))
  return (
    <>
      {rules.length === 0 ? (
        <p className="help">
          Each field is read from the column with the same name. <Names names={required} /> are required. If the source
          uses other names, map the fields here.
        </p>
      ) : (
        <ol className="rules-list">
          {rules.map((rule, place) => (
            <Rule
              key={rule.id}
              rule={rule}
              place={place}
              fields={fields}
              columns={columns}
              faults={faults}
              onChange={(change) => put(place, change)}
              onRemove={() => onChange(rules.filter((each) => each.id !== rule.id))}
            />
          ))}
        </ol>
      )}
      {faults['mapping'] === undefined ? undefined : (
        <p className="field-error" role="alert">
          The mapping {faults['mapping']}
        </p>
      )}
      {rules.length > 0 && missing.length > 0 ? (
        <p className="help">
          Still missing: <Names names={missing} />
        </p>
      ) : undefined}
      <div>
        <Button
          size="small"
          icon="plus"
          onPress={() => onChange(rules.length === 0 ? required.map(newRule) : [...rules, newRule(missing[0] ?? '')])}
        >
          {rules.length === 0 ? 'Map the fields' : 'Add a field'}
        </Button>
      </div>
    </>
  )
}

function Names({ names }: { readonly names: readonly string[] }) {
  return names.map((name, place) => (
    <span key={name}>
      {place === 0 ? '' : ', '}
      <code>{name}</code>
    </span>
  ))
}

interface RuleProps {
  readonly rule: RuleDraft
  readonly place: number
  readonly fields: readonly FieldSummary[]
  readonly columns: readonly string[]
  readonly faults: Faults
  readonly onChange: (change: Partial<RuleDraft>) => void
  readonly onRemove: () => void
}

function Rule({ rule, place, fields, columns, faults, onChange, onRemove }: RuleProps) {
  const field = fields.find(({ name }) => name === rule.target)
  const values = field?.values ?? []
  const allowed = values.length === 0 ? undefined : `One of ${values.join(', ')}.`
  const isSource = rule.from === 'source'
  const changes =
    rule.transform === 'kept' || rule.original?.transforms ? [kept, ...transformChoices] : transformChoices
  return (
    <li className="rule" aria-label={rule.target === '' ? 'A field' : rule.target}>
      <div className="rule-fields">
        <ComboBox
          label="Field"
          value={rule.target}
          onChange={(target) => onChange({ target })}
          offers={fields.map(({ name }) => (name === 'custom' ? 'custom.' : name))}
          error={faults[`mapping.${place}.target`]}
        />
        <Select label="Comes from" choices={origins} value={rule.from} onChange={(from) => onChange({ from })} />
        {isSource ? (
          <ComboBox
            label="Column"
            value={rule.text}
            onChange={(text) => onChange({ text })}
            offers={columns}
            placeholder="Name, or /path/in/it"
            error={faults[`mapping.${place}.source`]}
          />
        ) : (
          <ComboBox
            label="Value"
            value={rule.text}
            onChange={(text) => onChange({ text })}
            offers={values}
            error={faults[`mapping.${place}.source`] ?? faults[`mapping.${place}.constant`]}
          />
        )}
        {isSource ? (
          <Select
            label="Conversion"
            choices={changes}
            value={rule.transform}
            onChange={(transform) => onChange({ transform })}
          />
        ) : undefined}
        {isSource ? (
          <TextBox
            label="If empty"
            isOptional="unmarked"
            value={rule.fallback}
            onChange={(fallback) => onChange({ fallback })}
            placeholder="Nothing"
          />
        ) : undefined}
      </div>
      <Button
        look="quiet"
        size="small"
        icon="trash"
        aria-label={`Remove ${rule.target === '' ? 'this field' : rule.target}`}
        onPress={onRemove}
      />
      {isSource && rule.transform === 'map' ? (
        <div className="rule-more">
          <TextBox
            label="Translation"
            rows={4}
            isOptional="unmarked"
            value={rule.pairs}
            onChange={(pairs) => onChange({ pairs })}
            placeholder={`Proc = ${values[0] ?? 'process'}\nSys = ${values[1] ?? 'it_system'}`}
            help={`One value per line: source value = new value. ${allowed ?? ''}`}
          />
        </div>
      ) : undefined}
      {isSource && rule.transform === 'split' ? (
        <div className="rule-more">
          <TextBox
            label="Split at"
            isOptional="unmarked"
            value={rule.separator}
            onChange={(separator) => onChange({ separator })}
            maxLength={10}
          />
        </div>
      ) : undefined}
      {allowed !== undefined && rule.transform !== 'map' ? <p className="help rule-more">{allowed}</p> : undefined}
    </li>
  )
}
