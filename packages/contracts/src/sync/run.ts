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
    fetched: count('Rows in the source'),
    valid: count('Valid rows'),
    invalid: count('Invalid rows; see the errors of the run. Errors of a push are only in its response'),
    created: count('Created resources'),
    updated: count('Changed resources with the same parent'),
    moved: count('Resources with a different parent, whether changed otherwise or not'),
    reactivated: count('Resources that become active again'),
    deactivated: count('Resources that become inactive'),
    unchanged: count('Resources without a change'),
    missing: count('Rows that the source no longer has, and that no other connector delivers'),
    applied: count('Changes applied so far'),
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
      description: 'The key of the connector at that time; another one can have it now',
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
      description: 'SHA-256 of the changes and the newly missing rows. An approval names it',
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
        'When old details were deleted: the errors, and changes that were never applied. Absent if they are stored',
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
      description: '`warning`: the row is valid. Only new and changed rows have warnings, at most 1,000 in a run',
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
        'The key of a connector. If a retired connector had the same key, the list has the runs of both; `connector_id` distinguishes them',
    }),
  status: anyOf(runStatuses).optional(),
})
export const listChangesQuery = z.strictObject({ ...pageQuery, op: anyOf(changeOperations).optional() })
export const listErrorsQuery = z.strictObject({ ...pageQuery })

export const startRunQuery = z.strictObject({
  mode: z
    .enum(['dry_run', 'apply'])
    .default('apply')
    .meta({ description: '`dry_run`: computes the changes and applies none' }),
  override_safety: z
    .enum(['true', 'false'])
    .default('false')
    .meta({ description: '`true` applies the changes without approval, regardless of the limits; requires `reason`' }),
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
