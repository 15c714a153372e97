import { z } from 'zod'
import { line, optionalOrNull, text, timestampSchema, uuidSchema } from '../common.ts'
import { conditional, memberIs, requiredMembers } from '../conditional-schema.ts'
import { hierarchyKeySchema, hierarchyKinds } from '../universe/hierarchy.ts'

export const connectorTypes = ['csv', 'inline_json', 'http_json', 'scim', 'scim_inbound', 'ldap', 'sql'] as const
export const datasets = ['org_structure', 'auditable_entities', 'people', 'test_procedures'] as const
export const missingPolicies = ['ignore', 'flag', 'deactivate'] as const

export const connectorKeySchema = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must be 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or digit')
  .meta({ examples: ['hr-nightly'] })

const transformSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('trim') }),
  z.strictObject({ kind: z.literal('lower') }),
  z.strictObject({ kind: z.literal('upper') }),
  z.strictObject({ kind: z.literal('number') }),
  z.strictObject({ kind: z.literal('boolean') }),
  z.strictObject({ kind: z.literal('split'), separator: text(1, 10) }),
  z.strictObject({
    kind: z.literal('date'),
    format: z.enum(['YYYY-MM-DD', 'DD.MM.YYYY', 'DD/MM/YYYY', 'MM/DD/YYYY', 'YYYYMMDD']),
  }),
  z.strictObject({
    kind: z.literal('map'),
    values: z
      .record(text(0, 255), text(0, 255))
      .refine((values) => Object.keys(values).length <= 200, { message: 'must hold at most 200 values' })
      .meta({ maxProperties: 200 }),
  }),
])
export type Transform = z.infer<typeof transformSchema>

export const mappingRuleSchema = z
  .strictObject({
    target: z
      .string()
      .regex(/^(custom\.[^\p{Cc}\p{Cs}]{1,64}|[a-z_]{1,64}(\.[a-z_]{1,64})?)$/u)
      .meta({
        description: 'A field of the dataset, or a part of it such as `owner.email` or `custom.region`',
        examples: ['name'],
      }),
    source: line(1, 255).optional().meta({
      description:
        'A column, attribute or member, or a JSON Pointer (RFC 6901) into the item, such as `/owner/email`. For `ldap`, one of the `attributes` in any case; `/mail/0` is the first value of `mail`',
    }),
    constant: z.union([text(0, 4000), z.number(), z.boolean()]).optional(),
    default: z
      .union([text(0, 4000), z.number(), z.boolean()])
      .optional()
      .meta({ description: 'Used if the source is absent or empty' }),
    transforms: z.array(transformSchema).max(5).optional(),
  })
  .refine((rule) => (rule.source === undefined) !== (rule.constant === undefined), {
    message: 'must have either a source or a constant',
  })
  .meta({
    id: 'MappingRule',
    ...conditional(requiredMembers('source'), { not: requiredMembers('constant') }, requiredMembers('constant')),
    examples: [{ target: 'name', source: 'Department name' }],
  })
export type MappingRule = z.infer<typeof mappingRuleSchema>

const mappingSchema = z
  .array(mappingRuleSchema)
  .max(100)
  .refine((rules) => new Set(rules.map(({ target }) => target)).size === rules.length, {
    message: 'must name each target once',
  })
  .meta({
    description:
      'A field without a rule is read from the column of the same name. If an optional field has no such column, it is empty and the run has the warning `field_gone`. A table (`csv`, `sql`) must have each column that a rule names, unless the rule has a `default`. Items of other sources can lack the member of a rule: the field is empty, and if no item has the member, the first run has the warning `field_absent`',
  })

const limits = {
  max_deactivate_pct: z.number().min(0).max(100),
  max_deactivate: z.int().min(0).max(10_000_000),
  min_rows: z.int().min(0).max(10_000_000),
  max_change_pct: z.number().min(0).max(100),
}
const safetyFields = {
  max_deactivate_pct: limits.max_deactivate_pct.default(10),
  max_deactivate: limits.max_deactivate.default(50),
  min_rows: limits.min_rows.default(1),
  max_change_pct: limits.max_change_pct.default(40),
}
const aboutSafety =
  'A run that exceeds a limit waits for approval. Percentages refer to the resources that the connector imported before, or in the first import to its rows. Resources that the source itself makes inactive count. Missing rows count unless `missing_policy` is `ignore`'

export const safetySchema = z.strictObject(safetyFields).meta({ id: 'ConnectorSafety', description: aboutSafety })
const newSafetySchema = z.strictObject(safetyFields).meta({ id: 'NewConnectorSafety', description: aboutSafety })
/** For a merge patch (RFC 7396): absent members get no default. */
const safetyChangeSchema = z
  .strictObject(limits)
  .partial()
  .meta({ id: 'ConnectorSafetyChange', description: 'Absent members do not change' })
export type Safety = z.infer<typeof safetySchema>

export const scheduleSchema = z
  .strictObject({
    cron: line(9, 100).meta({
      description: 'Minute, hour, day of month, month, day of week; runs at least five minutes apart',
      examples: ['30 2 * * *'],
    }),
    time_zone: line(1, 64).meta({ description: 'An IANA time zone', examples: ['Europe/Berlin'] }),
  })
  .meta({
    id: 'ConnectorSchedule',
    description:
      'If clocks skip the time, the run is due right after the skip; if they show it twice, the first time. Hourly runs (`*`) are due by elapsed time. No run starts while another run of the connector is in progress or waits for approval, or while the connector is paused. A connector in `error` continues',
  })
export type Schedule = z.infer<typeof scheduleSchema>

const hierarchyOfConnectorSchema = z
  .strictObject({ key: hierarchyKeySchema, name: line(1, 255), kind: z.enum(hierarchyKinds) })
  .meta({
    id: 'ConnectorHierarchy',
    description:
      'The hierarchy with this key, created if it does not exist. A run that changes a node also sets this name and kind; a rollback does not restore them',
  })

const aboutAuthority =
  'Whether people whom the connector delivers lose access when they become inactive. Only for the dataset `people`, and for providers with `directory` in the sign-in file'

const configSchema = z
  .record(line(1, 64), z.unknown())
  .refine((config) => JSON.stringify(config).length <= 32_768, { message: 'must be at most 32 KiB of JSON' })

const secretName = z.string().regex(/^[a-z][a-z0-9_]{0,63}$/)

export const connectorSchema = z
  .object({
    id: uuidSchema,
    key: z.string(),
    name: z.string(),
    type: z.enum(connectorTypes),
    dataset: z.enum(datasets),
    hierarchy: hierarchyOfConnectorSchema.nullable().meta({ description: 'Only for the dataset `org_structure`' }),
    config: configSchema,
    secrets: z
      .record(secretName, z.object({ set: z.literal(true), updated_at: timestampSchema }))
      .meta({ description: 'The names of the secrets that are set. Their values are never returned' }),
    mapping: mappingSchema,
    schedule: scheduleSchema.nullable(),
    missing_policy: z
      .enum(missingPolicies)
      .meta({ description: 'What happens to resources whose row is missing from the source. They are never deleted' }),
    authoritative: z.boolean().optional().meta({ description: aboutAuthority }),
    safety: safetySchema,
    state: z.enum(['active', 'paused', 'error']).meta({
      description:
        '`error` after five failed runs in a row. `paused`: no run starts, manually or by schedule; current runs continue, waiting runs can be approved, and applied changes can be undone',
    }),
    consecutive_failures: z.int().meta({
      description:
        'Failed runs since the last successful one; at five the state is `error`. Cancelled runs, runs that a suspension ended, and rollbacks do not count',
    }),
    last_run_at: timestampSchema.nullable(),
    next_run_at: timestampSchema.nullable(),
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'Connector' })
export type Connector = z.infer<typeof connectorSchema>

export const creatableConnectorTypes = ['csv', 'http_json', 'scim', 'ldap', 'sql'] as const

const secretValue = text(1, 16_384)

export const createConnectorBodySchema = z
  .strictObject({
    key: connectorKeySchema.meta({
      description:
        '`inline`, `inline-…` and `scim-inbound` are the keys of pushes (409); `retired-…` is reserved (422)',
    }),
    name: line(1, 255),
    type: z.enum(creatableConnectorTypes),
    dataset: z.enum(datasets).meta({ examples: ['auditable_entities'] }),
    hierarchy: optionalOrNull(hierarchyOfConnectorSchema),
    config: configSchema.default({}),
    secrets: z.record(secretName, secretValue).default({}),
    mapping: mappingSchema.default([]),
    schedule: scheduleSchema.nullable().default(null),
    missing_policy: z.enum(missingPolicies).default('flag'),
    authoritative: z.boolean().default(false).meta({ description: 'Only for the dataset `people`' }),
    safety: newSafetySchema.default(newSafetySchema.parse({})),
  })
  .refine((body) => (body.dataset === 'org_structure') === (body.hierarchy !== undefined), {
    message: 'is required for the dataset org_structure and not allowed for others',
    path: ['hierarchy'],
  })
  .meta({
    id: 'NewConnector',
    ...conditional(memberIs('dataset', 'org_structure'), requiredMembers('hierarchy'), {
      not: requiredMembers('hierarchy'),
    }),
  })
export type CreateConnectorBody = z.output<typeof createConnectorBodySchema>

export const updateConnectorBodySchema = z
  .strictObject({
    name: line(1, 255).optional(),
    config: configSchema.optional().meta({ description: 'Replaces the whole configuration' }),
    secrets: z.record(secretName, secretValue.nullable()).optional().meta({
      description:
        'Sets the named secrets; null removes one. If `config` changes the origin, host, port, `ca`, `encryption` or account, every stored secret must be named: 422 `secret_needed`',
    }),
    mapping: mappingSchema.optional(),
    schedule: scheduleSchema.nullable().optional(),
    missing_policy: z.enum(missingPolicies).optional(),
    authoritative: z.boolean().optional().meta({ description: 'Applies from the next run' }),
    safety: safetyChangeSchema.optional(),
    state: z.enum(['active', 'paused']).optional(),
  })
  .refine((body) => Object.keys(body).length > 0, { message: 'must change at least one field' })
  .meta({ id: 'ConnectorChange', minProperties: 1, examples: [{ name: 'Departments', state: 'paused' }] })
export type UpdateConnectorBody = z.output<typeof updateConnectorBodySchema>

export const connectorAddressSchema = z
  .union([uuidSchema, z.string().regex(/^key:[a-z0-9][a-z0-9_-]{0,63}$/)])
  .meta({ description: 'An id, or `key:` and the key of a connector' })

export const missingRowSchema = z
  .object({
    source_key: z.string().meta({ description: 'The `external_id` or `node_key` of its resource' }),
    dataset: z.enum(datasets),
    missing_since: timestampSchema.meta({ description: 'When a run first missed it' }),
  })
  .meta({ id: 'MissingRow' })
export type MissingRow = z.infer<typeof missingRowSchema>

export const connectorParams = z.strictObject({ id: connectorAddressSchema })
