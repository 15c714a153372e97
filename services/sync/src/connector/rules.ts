import {
  type Connector,
  type CreateConnectorBody,
  type InputError,
  type MappingRule,
  type Schedule,
  connectorConfigSchemas,
  wordsOf,
} from '@postern/contracts'
import type { z } from 'zod'
import { type Dataset, datasetRules } from '../dataset/rules.ts'
import { unreadSources } from '../mapping/attributes.ts'
import { columnOf, missingColumns } from '../mapping/columns.ts'
import { replacingTargets, targetsOf, unknownTargets } from '../mapping/targets.ts'
import { scheduleFault } from '../schedule/next-run.ts'
import type { SourceType } from '../source/types.ts'

/** The key prefix of retired connectors, whose former keys can be used again. */
export const retiredPrefix = 'retired-'

interface Setup {
  readonly type: string
  readonly dataset: Dataset
  readonly config: CreateConnectorBody['config']
  readonly mapping: readonly MappingRule[]
  readonly schedule: Schedule | null
  readonly authoritative: boolean
  /** What the request sets. Unchanged values are not checked again. */
  readonly given: { readonly mapping: boolean; readonly config: boolean }
  readonly secretNames: readonly string[]
}

/** Returns the errors of a connector's setup. No error quotes a value of `config`, which may be a misplaced secret. */
export function setupFaults(setup: Setup, sources: ReadonlyMap<string, SourceType>, now: Date): InputError[] {
  const source = sources.get(setup.type)
  if (source === undefined) {
    return [{ pointer: '/type', code: 'unknown', detail: 'is not a type of this installation' }]
  }
  return [
    ...configFaults(source, setup.config),
    ...secretFaults(source, setup.secretNames),
    ...(setup.given.mapping ? mappingFaults(setup.dataset, setup.mapping) : []),
    ...(setup.given.mapping || setup.given.config ? sourceFaults(source, setup) : []),
    ...scheduleFaults(source, setup, now),
    ...authorityFaults(setup),
  ]
}

function authorityFaults({ authoritative, dataset }: Setup): InputError[] {
  if (!authoritative || dataset === 'people') return []
  return [{ pointer: '/authoritative', code: 'invalid', detail: 'can be true only for the dataset people' }]
}

export function keyFaults(key: string): InputError[] {
  if (!key.startsWith(retiredPrefix)) return []
  const detail = `must not start with ${retiredPrefix}, which is reserved for retired connectors`
  return [{ pointer: '/key', code: 'reserved', detail }]
}

function configFaults(source: SourceType, config: object): InputError[] {
  const parsed = source.configSchema.safeParse(config)
  return (parsed.error?.issues ?? []).flatMap((issue): InputError[] => {
    const pointer = ['/config', ...issue.path.map((part) => pointerPart(String(part)))].join('/')
    if (issue.code !== 'unrecognized_keys') return [{ pointer, code: 'invalid', detail: wordsOf(issue) }]
    const known = issue.path.length === 0 ? namesOf(source.type) : []
    const detail =
      known.length === 0 ? 'is not a known member: remove it' : `is not a known member: use ${known.join(', ')}`
    return issue.keys.slice(0, maxNamedKeys).map((key) => ({
      pointer: `${pointer}/${pointerPart(key.slice(0, 64).toWellFormed())}`,
      code: 'unknown',
      detail,
    }))
  })
}

const maxNamedKeys = 20

function namesOf(type: string): readonly string[] {
  const schemas: Readonly<Record<string, z.ZodObject>> = connectorConfigSchemas
  return Object.keys(schemas[type]?.shape ?? {})
}

function secretFaults(source: SourceType, names: readonly string[]): InputError[] {
  return names
    .filter((name) => !source.secretNames.includes(name))
    .map((name) => ({
      pointer: `/secrets/${pointerPart(name)}`,
      code: 'unknown',
      detail:
        source.secretNames.length === 0
          ? 'is not known: connectors of this type have no secrets'
          : `is not known: it must be one of ${source.secretNames.join(', ')}`,
    }))
}

function mappingFaults(dataset: Dataset, mapping: readonly MappingRule[]): InputError[] {
  const rules = datasetRules[dataset]
  const faults: InputError[] = unknownTargets(mapping, rules).map((index) => ({
    pointer: `/mapping/${index}/target`,
    code: 'unknown',
    detail: `is not a field of the dataset, or a member of one. Use one of ${targetsOf(rules).join(', ')}`,
  }))
  for (const index of replacingTargets(mapping)) {
    const detail = 'would replace a member that an earlier rule sets: set the whole field first, or only its members'
    faults.push({ pointer: `/mapping/${index}/target`, code: 'invalid', detail })
  }
  if (mapping.length > 0 && !mapping.some(({ target }) => target === rules.keyField)) {
    faults.push({ pointer: '/mapping', code: 'missing', detail: `must have the target ${rules.keyField}` })
  }
  return faults
}

function sourceFaults(source: SourceType, setup: Setup): InputError[] {
  const { config, mapping } = setup
  const columns = source.columnsOf(config)
  if (columns !== undefined) return columnFaults(columns, setup)
  const attributes = source.attributesOf(config)
  if (attributes === undefined) return []
  const known = attributes.join(', ').slice(0, 500)
  return unreadSources(mapping, attributes).map((index) => ({
    pointer: `/mapping/${index}/source`,
    code: 'unknown',
    detail: `is not read: add it to \`attributes\` of \`config\`, which has ${known}`,
  }))
}

function columnFaults(columns: readonly string[], { dataset, mapping }: Setup): InputError[] {
  const known = columns.join(', ').slice(0, 500)
  const unread = mapping.flatMap(({ source }, index) =>
    source === undefined || columns.includes(columnOf(source))
      ? []
      : [
          {
            pointer: `/mapping/${index}/source`,
            code: 'unknown',
            detail: `is not read: add it to \`columns\` of \`config\`, which has ${known}`,
          },
        ],
  )
  if (mapping.length > 0) return unread
  const lacking = missingColumns([], datasetRules[dataset], columns)
  if (lacking.length === 0) return []
  const detail = `must name ${lacking.join(', ')}: without a mapping, columns must be named like the fields`
  return [{ pointer: '/config/columns', code: 'missing', detail }]
}

function scheduleFaults(source: SourceType, { schedule, config }: Setup, now: Date): InputError[] {
  if (schedule === null) return []
  if (isUploaded(source.type, config)) {
    return [{ pointer: '/schedule', code: 'invalid', detail: 'an uploaded source cannot have a schedule' }]
  }
  const fault = scheduleFault(schedule, now)
  return fault === undefined ? [] : [{ pointer: `/schedule/${fault.field}`, code: 'invalid', detail: fault.detail }]
}

/** Returns whether runs of the connector read the body of the request. */
export function isUploaded(type: string, config: Readonly<Record<string, unknown>>): boolean {
  return type === 'csv' && config['url'] === undefined
}

function pointerPart(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}

export function isPushed({ type }: Pick<Connector, 'type'>): boolean {
  return type === 'inline_json' || type === 'scim_inbound'
}
