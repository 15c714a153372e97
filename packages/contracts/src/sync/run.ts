import { z } from 'zod'
import { createdBySchema, line, timestampSchema, uuidSchema } from '../common.ts'
import { anyOf, pageQuery } from '../page.ts'

export const runModes = ['dry_run', 'apply', 'rollback'] as const
export const runStatuses = [
  'queued',
  'fetching',
  'validating',
  'diffing',
  'needs_approval',
  'applying',
  'succeeded',
  'partial',
  'failed',
  'cancelled',
] as const
export const finalRunStatuses = ['succeeded', 'partial', 'failed', 'cancelled'] as const
export const changeOperations = ['create', 'update', 'move', 'deactivate', 'reactivate'] as const

const count = (description: string) => z.int().min(0).meta({ description })

export const runCountsSchema = z
  .object({
    fetched: count('Rows that the source gave'),
    valid: count('Rows that can be taken in'),
    invalid: count('Rows that cannot; see the errors of the run. Errors of a push are only in its response'),
    created: count('New'),
    updated: count('Changed'),
    moved: count('Put below another parent, and perhaps changed as well'),
    reactivated: count('Active again'),
    deactivated: count('No longer active'),
    unchanged: count('As they were'),
    missing: count('Brought by the connector before, by no other, and not in the source any more'),
    applied: count('Changes that the universe has taken in so far'),
  })
  .meta({ id: 'SyncRunCounts' })
export type RunCounts = z.infer<typeof runCountsSchema>

export const safetyBreachSchema = z
  .object({
    limit: z.enum(['max_deactivate_pct', 'max_deactivate', 'min_rows', 'max_change_pct']),
    allowed: z.number(),
    actual: z.number(),
  })
  .meta({ id: 'SafetyBreach' })
export type SafetyBreach = z.infer<typeof safetyBreachSchema>

export const runSchema = z
  .object({
    id: uuidSchema,
    connector_id: uuidSchema.nullable(),
    connector_key: z.string().nullable().meta({
      description: 'Of a retired connector: the key that it had, which another one may have by now',
    }),
    mode: z.enum(runModes),
    trigger: z.enum(['api', 'schedule', 'upload', 'push']),
    status: z.enum(runStatuses),
    counts: runCountsSchema,
    breaches: z.array(safetyBreachSchema).meta({ description: 'Why the run needed approval' }),
    failure: z
      .object({ code: z.string(), message: z.string() })
      .nullable()
      .meta({ description: 'Why the run failed and how to fix it' }),
    diff_hash: z.string().nullable().meta({
      description: 'SHA-256 of the changes, and of the rows that are missing from this run on: what an approval is for',
    }),
    input_sha256: z.string().nullable().meta({ description: 'The SHA-256 of an uploaded file' }),
    rollback_of: uuidSchema.nullable(),
    reason: z.string().nullable(),
    attempt: z.int().meta({ description: 'How often a worker has started it' }),
    created_by: createdBySchema,
    created_at: timestampSchema,
    started_at: timestampSchema.nullable(),
    finished_at: timestampSchema.nullable(),
    details_cleared_at: timestampSchema.optional().meta({
      description:
        'Only where the platform has removed them after a time: when its errors went, and its changes where they were only looked at',
    }),
  })
  .meta({ id: 'SyncRun' })
export type Run = z.infer<typeof runSchema>

const imageSchema = z.record(z.string(), z.json())

export const runChangeSchema = z
  .object({
    seq: z.int(),
    op: z.enum(changeOperations),
    source_key: z.string(),
    before: imageSchema.nullable(),
    after: imageSchema.nullable(),
    applied_at: timestampSchema.nullable(),
    error: z.string().nullable(),
  })
  .meta({ id: 'SyncRunChange' })
export type RunChange = z.infer<typeof runChangeSchema>

export const runErrorSchema = z
  .object({
    seq: z.int(),
    row: z.int().nullable().meta({ description: 'Position in the source; a header is row 1' }),
    source_key: z.string().nullable(),
    field: z.string().nullable(),
    code: z.string(),
    message: z.string(),
    value_excerpt: z.string().nullable().meta({ description: 'The first 80 characters of the value' }),
    severity: z.enum(['error', 'warning']).meta({
      description:
        '`warning`: the row was taken in all the same. Told of rows that are new or read otherwise than before, the first 1,000 of a run',
    }),
  })
  .meta({ id: 'SyncRunError' })
export type RunError = z.infer<typeof runErrorSchema>

export const runParams = z.strictObject({ id: uuidSchema })

export const listRunsQuery = z.strictObject({
  ...pageQuery,
  connector: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/)
    .optional()
    .meta({
      description:
        'The key of a connector, or of a retired one. If another connector has the key now, the list has the runs of both; `connector_id` distinguishes them',
    }),
  status: anyOf(runStatuses).optional(),
})
export const listChangesQuery = z.strictObject({ ...pageQuery, op: anyOf(changeOperations).optional() })
export const listErrorsQuery = z.strictObject({ ...pageQuery })

export const startRunQuery = z.strictObject({
  mode: z
    .enum(['dry_run', 'apply'])
    .default('apply')
    .meta({ description: '`dry_run` ends when the changes are known and applies none' }),
  override_safety: z
    .enum(['true', 'false'])
    .default('false')
    .meta({ description: '`true` applies the changes without approval, regardless of the limits; requires a reason' }),
  reason: line(1, 500).optional(),
})

export const rollbackBodySchema = z.strictObject({ reason: line(1, 500).optional() }).optional()
export const approveBodySchema = z.strictObject({
  diff_hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .meta({ description: 'The `diff_hash` of the reviewed run' }),
  reason: line(1, 500).optional(),
})

export const connectorTestSchema = z
  .object({
    rows: z.array(
      z.object({
        row: z.int(),
        values: z.record(z.string(), z.json()),
        mapped: imageSchema.nullable(),
        errors: z.array(z.object({ field: z.string().nullable(), code: z.string(), message: z.string() })),
      }),
    ),
  })
  .meta({ id: 'ConnectorTest' })
export type ConnectorTest = z.infer<typeof connectorTestSchema>
