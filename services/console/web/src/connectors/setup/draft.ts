import type { Connector, ConnectorChange, MappingRule, NewConnector } from '../../api/sync.ts'
import { type RuleDraft, ruleDraftOf, ruleOf } from './rules.ts'
import { type ScheduleDraft, noSchedule, scheduleDraftOf, scheduleOf } from './schedule.ts'
import type { Setting, SourceType, Values } from './setting.ts'
import { shownSettings, sources } from './sources.ts'

export interface Draft {
  readonly type: SourceType
  readonly name: string
  readonly key: string
  readonly dataset: Connector['dataset']
  readonly hierarchy: {
    readonly key: string
    readonly name: string
    readonly kind: NonNullable<Connector['hierarchy']>['kind']
  }
  readonly values: Values
  /** Stored secrets are never returned. */
  readonly secrets: Readonly<Record<string, string>>
  readonly rules: readonly RuleDraft[]
  readonly schedule: ScheduleDraft
  readonly missingPolicy: Connector['missing_policy']
  readonly authoritative: boolean
  readonly safety: Readonly<Record<keyof Connector['safety'], string>>
}

/** Errors by request path with dots: `config.url`, `mapping.0.target`. */
export type Faults = Readonly<Record<string, string>>

export function newDraft(timeZone: string): Draft {
  return {
    type: 'csv',
    name: '',
    key: '',
    dataset: 'auditable_entities',
    hierarchy: { key: '', name: '', kind: 'legal_entity' },
    values: startValues('csv'),
    secrets: {},
    rules: [],
    schedule: noSchedule(timeZone),
    missingPolicy: 'flag',
    authoritative: false,
    safety: { max_deactivate_pct: '10', max_deactivate: '50', min_rows: '1', max_change_pct: '40' },
  }
}

export function startValues(type: SourceType): Values {
  return Object.fromEntries(
    sources[type].settings.map((setting) => [
      setting.name,
      setting.kind === 'choice' ? (setting.choices[0]?.value ?? '') : '',
    ]),
  )
}

/** Returns undefined for a connector that receives pushes. */
export function draftOf(connector: Connector, timeZone: string): Draft | undefined {
  const { type } = connector
  if (type === 'inline_json' || type === 'scim_inbound') return undefined
  const { key, name, dataset, hierarchy, config, safety } = connector
  return {
    type,
    key,
    name,
    dataset,
    hierarchy: hierarchy ?? { key: '', name: '', kind: 'custom' },
    values: valuesOf(type, config),
    secrets: {},
    rules: connector.mapping.map(ruleDraftOf),
    schedule: scheduleDraftOf(connector.schedule, timeZone),
    missingPolicy: connector.missing_policy,
    authoritative: connector.authoritative === true,
    safety: {
      max_deactivate_pct: String(safety.max_deactivate_pct),
      max_deactivate: String(safety.max_deactivate),
      min_rows: String(safety.min_rows),
      max_change_pct: String(safety.max_change_pct),
    },
  }
}

function valuesOf(type: SourceType, config: Connector['config']): Values {
  const found = Object.fromEntries(
    sources[type].settings.flatMap(({ name }) => {
      const value = memberAt(config, name)
      return value === undefined ? [] : [[name, textOf(value)]]
    }),
  )
  return {
    ...startValues(type),
    ...found,
    ...(type === 'csv' ? { from: config['url'] === undefined ? 'upload' : 'url' } : {}),
  }
}

function memberAt(value: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((at, part) => (typeof at === 'object' && at !== null ? Reflect.get(at, part) : undefined), value)
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.join(', ')
  return value === true ? 'yes' : value === false ? '' : String(value)
}

/** Omits settings of earlier choices. Keeps a list of `before` that the form does not change. */
export function configOf(type: SourceType, values: Values, before: Connector['config'] = {}): Record<string, unknown> {
  const config: Record<string, unknown> = {}
  for (const setting of shownSettings(type, values)) {
    const value = valueOf(setting, values[setting.name] ?? '', memberAt(before, setting.name))
    // Only files from the web have a URL.
    if (value === undefined || setting.name === 'from') continue
    const [first = '', second] = setting.name.split('.')
    if (second === undefined) config[first] = value
    else {
      const group = config[first]
      config[first] = { ...(typeof group === 'object' ? group : {}), [second]: value }
    }
  }
  return config
}

function valueOf({ kind }: Setting, text: string, before: unknown): unknown {
  if (kind === 'choice') return text === '' ? undefined : text
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  switch (kind) {
    case 'yes':
      return true
    case 'number':
      return Number(trimmed)
    case 'list':
      // The name of a column may contain a comma.
      return Array.isArray(before) && textOf(before) === text ? before : partsOf(trimmed)
    default:
      return trimmed
  }
}

function partsOf(text: string): readonly string[] {
  return text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
}

/** Finds errors before sending. `isSet` says whether a secret is stored. */
export function faultsOf(draft: Draft, isSet: (secret: string) => boolean): Faults {
  const faults: Record<string, string> = {}
  const { type, values, rules, schedule } = draft
  if (draft.name.trim() === '') faults['name'] = 'Enter a name'
  if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(draft.key)) {
    faults['key'] = 'Use lower-case letters, digits, - and _, and start with a letter or digit'
  }
  if (draft.dataset === 'org_structure') {
    if (draft.hierarchy.name.trim() === '') faults['hierarchy.name'] = 'Enter the name of the hierarchy'
    if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(draft.hierarchy.key)) {
      faults['hierarchy.key'] = 'Use lower-case letters, digits, - and _'
    }
  }
  for (const { name, isRequired, kind } of shownSettings(type, values)) {
    const text = (values[name] ?? '').trim()
    if (isRequired === true && text === '') faults[`config.${name}`] = 'This is required'
    if (kind === 'number' && text !== '' && !/^\d{1,9}$/.test(text)) faults[`config.${name}`] = 'Enter a whole number'
  }
  for (const { name } of sources[type].secrets(values)) {
    if (!isSet(name) && (draft.secrets[name] ?? '') === '') faults[`secrets.${name}`] = 'This is required'
  }
  rules.forEach((rule, place) => {
    if (rule.target.trim() === '') faults[`mapping.${place}.target`] = 'Choose a field'
    if (rule.text.trim() === '') faults[`mapping.${place}.source`] = 'Enter the source column or value'
  })
  for (const [name, text] of Object.entries(draft.safety)) {
    if (!/^\d{1,8}(\.\d{1,3})?$/.test(text.trim())) faults[`safety.${name}`] = 'Enter a number'
  }
  if (!isWithoutSchedule(draft) && schedule.kind === 'custom' && schedule.cron.trim() === '') {
    faults['schedule.cron'] = 'Enter a cron expression'
  }
  return faults
}

export type Part = 'Source' | 'Name' | 'Fields' | 'When it runs' | 'Safeguards'

export interface RebasedDraft {
  readonly draft: Draft
  readonly changed: readonly Part[]
  readonly kept: readonly Part[]
}

/** Applies the edits between `start` and `draft` to the current connector. */
export function rebase(draft: Draft, start: Draft, now: Draft): RebasedDraft {
  const changed = new Set<Part>()
  const kept = new Set<Part>()
  const choose = <T>(part: Part, typed: T, old: T, next: T, read: (value: T) => unknown = (value) => value): T => {
    const [mine, before, theirs] = [typed, old, next].map((value) => JSON.stringify(read(value)))
    if (theirs !== before && theirs !== mine) changed.add(part)
    if (mine === before) return next
    if (theirs !== before && theirs !== mine) kept.add(part)
    return typed
  }
  const each = <K extends string>(
    part: Part,
    typed: Readonly<Record<K, string>>,
    old: Readonly<Record<K, string>>,
    next: Readonly<Record<K, string>>,
  ): Readonly<Record<K, string>> => ({
    ...next,
    ...Object.fromEntries(
      Object.keys({ ...next, ...typed }).map((name) => [
        name,
        choose(part, textAt(typed, name), textAt(old, name), textAt(next, name)),
      ]),
    ),
  })
  const merged: Draft = {
    ...now,
    name: choose('Name', draft.name, start.name, now.name),
    values: each('Source', draft.values, start.values, now.values),
    secrets: draft.secrets,
    rules: choose('Fields', draft.rules, start.rules, now.rules, (rules) => rules.map(ruleOf)),
    schedule: choose('When it runs', draft.schedule, start.schedule, now.schedule),
    missingPolicy: choose('Safeguards', draft.missingPolicy, start.missingPolicy, now.missingPolicy),
    authoritative: choose('Safeguards', draft.authoritative, start.authoritative, now.authoritative),
    safety: each('Safeguards', draft.safety, start.safety, now.safety),
  }
  return { draft: merged, changed: [...changed], kept: [...kept] }
}

function textAt(texts: Readonly<Record<string, string>>, name: string): string {
  return texts[name] ?? ''
}

export function isWithoutSchedule({ type, values }: Pick<Draft, 'type' | 'values'>): boolean {
  return type === 'csv' && values['from'] !== 'url'
}

function toSharedMembers(draft: Draft, before?: Connector['config']) {
  const mapping: MappingRule[] = draft.rules.map(ruleOf)
  return {
    name: draft.name.trim(),
    config: configOf(draft.type, draft.values, before),
    mapping,
    schedule: isWithoutSchedule(draft) ? null : scheduleOf(draft.schedule),
    missing_policy: draft.missingPolicy,
    authoritative: draft.dataset === 'people' && draft.authoritative,
    safety: {
      max_deactivate_pct: Number(draft.safety.max_deactivate_pct),
      max_deactivate: Number(draft.safety.max_deactivate),
      min_rows: Number(draft.safety.min_rows),
      max_change_pct: Number(draft.safety.max_change_pct),
    },
  }
}

function typedSecrets({ type, values, secrets }: Draft): Record<string, string> {
  return Object.fromEntries(
    sources[type].secrets(values).flatMap(({ name }) => {
      const value = secrets[name] ?? ''
      return value === '' ? [] : [[name, value]]
    }),
  )
}

export function creationOf(draft: Draft): NewConnector {
  const { type, key, dataset, hierarchy } = draft
  return {
    ...toSharedMembers(draft),
    key,
    type,
    dataset,
    secrets: typedSecrets(draft),
    ...(dataset === 'org_structure' ? { hierarchy: { ...hierarchy, name: hierarchy.name.trim() } } : {}),
  }
}

/** Removes unneeded secrets; secrets without input stay. */
export function changeOf(draft: Draft, before: Connector): ConnectorChange {
  const needed = new Set(sources[draft.type].secrets(draft.values).map(({ name }) => name))
  const needless = Object.keys(before.secrets).filter((name) => !needed.has(name))
  return {
    ...toSharedMembers(draft, before.config),
    secrets: { ...typedSecrets(draft), ...Object.fromEntries(needless.map((name) => [name, null])) },
  }
}
