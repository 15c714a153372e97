import { z } from 'zod'
import { externalIdSchema, timestampSchema, uuidSchema } from '../common.ts'
import { datasets, missingPolicies } from '../sync/connector.ts'
import { hierarchyKeySchema, hierarchyKinds } from '../universe/hierarchy.ts'

// Runs of connectors, from sync to the universe at `/internal/v1/imports/…` (`internalPaths`). The caller is the connector.
// A request of an earlier attempt at a run gets 409.

const importFields = { run_id: uuidSchema, attempt: z.int().min(1).max(2_147_483_647) }

export const maxImportRows = 5000
export const maxSourceRow = 9_999_999
export const rowHashBytes = 16
export const maxImportHashes = 100_000

const hashesSchema = z.base64().max((Math.ceil((maxImportHashes * rowHashBytes) / 3) + 1) * 4)

/** Prepares an import, and removes the rows of an earlier attempt. */
export const beginImportBodySchema = z.strictObject({
  ...importFields,
  dataset: z.enum(datasets),
  hierarchy: hierarchyKeySchema.optional(),
  read_at: timestampSchema,
})
export type BeginImportBody = z.infer<typeof beginImportBodySchema>

/** `known`: rows that the connector has delivered before, including missing ones. */
export const beginImportAnswerSchema = z.strictObject({ known: z.int() })

/** Lists hashes of rows that are stored as delivered, in the order of their keys. */
export const importHashesBodySchema = z.strictObject({ ...importFields, after: z.string() })
/** `hashes` are concatenated. `last`: where the next page starts; null after the last page. */
export const importHashesAnswerSchema = z.strictObject({ hashes: z.base64(), last: z.string().nullable() })

const jsonObjectOnOneLine = /^\{[^\n]*\}$/

/** A row of the source, with its JSON on one line as `content`, unless it is invalid. */
const importRowSchema = z.strictObject({
  row: z.int().min(1).max(maxSourceRow),
  key: z.string().optional(),
  parent: z.string().optional(),
  content: z.string().regex(jsonObjectOnOneLine).optional(),
  hash: z.base64().optional(),
})
export type ImportRow = z.infer<typeof importRowSchema>

/** Stages rows. Those with a known hash are not sent. `gone`: known hashes that the source no longer has. */
export const importRowsBodySchema = z.strictObject({
  ...importFields,
  rows: z.array(importRowSchema).max(maxImportRows),
  gone: hashesSchema.optional(),
})

/** Compares some staged rows with the stored ones. Repeat it with the `after` of the answer until the state is `planned`. */
export const planImportBodySchema = z.strictObject({
  ...importFields,
  after: z.int().min(0),
  hashes: z.int().min(0).nullable(),
  missing_policy: z.enum(missingPolicies),
  /** Whether the run ends the access of inactive people. The answer then has `locked_out`. */
  authoritative: z.literal(true).optional(),
})
export type PlanImportBody = z.infer<typeof planImportBodySchema>

const count = z.int().min(0)

export const importPlanSchema = z.strictObject({
  state: z.literal('planned'),
  diff_hash: z.string(),
  valid: count,
  invalid: count,
  created: count,
  updated: count,
  moved: count,
  reactivated: count,
  deactivated: count,
  /** Rows that the connector delivered before and that were present. */
  known: count,
  /** Rows that no connector delivers any longer. */
  missing: count,
  /** Missing rows that were present before. */
  lately_missing: count,
  gone: count,
  /** Missing rows that are drafts and cannot become inactive. */
  drafts: count,
  keyless: count,
  flagged: z.array(z.string()),
  lost_fields: z.array(z.strictObject({ field: z.string(), rows: count })),
  /** People who lose access without being deactivated, with the first keys. */
  locked_out: z.strictObject({ total: count, keys: z.array(z.string()) }).optional(),
})
export type ImportPlan = z.infer<typeof importPlanSchema>

export const planImportAnswerSchema = z.discriminatedUnion('state', [
  /** Stored rows have changed, or a key is repeated: read the source again, without hashes. */
  z.strictObject({ state: z.literal('read_again') }),
  z.strictObject({ state: z.literal('comparing'), after: count }),
  importPlanSchema,
])
export type PlanImportAnswer = z.infer<typeof planImportAnswerSchema>

/** Plans the inverse of another run, some changes a request, from the last change to the first. */
export const planRollbackBodySchema = z.strictObject({
  ...importFields,
  dataset: z.enum(datasets),
  hierarchy: hierarchyKeySchema.optional(),
  read_at: timestampSchema,
  rollback_of: uuidSchema,
  /** The `below` of the previous answer; absent in the first request. */
  below: z.int().optional(),
})
export type PlanRollbackBody = z.infer<typeof planRollbackBodySchema>
export const rollbackPlanSchema = z.strictObject({
  below: z.int().nullable(),
  /** Rows that cannot be undone completely. */
  stay: count,
  diff_hash: z.string(),
  created: count,
  updated: count,
  moved: count,
  reactivated: count,
  deactivated: count,
})
export type RollbackPlan = z.infer<typeof rollbackPlanSchema>

/** Whether a run can be rolled back. */
export const undoableBodySchema = z.strictObject({ run_id: uuidSchema, dataset: z.enum(datasets) })
export const undoableAnswerSchema = z.strictObject({
  /** A later run of the connector has changed the same rows. */
  changed: z.boolean(),
  /** Something may be left to undo. */
  left: z.boolean(),
})

/** Whether any change after `after` is out of date. */
export const checkImportBodySchema = z.strictObject({ run_id: uuidSchema, after: count })
/** `after`: null after the last change. */
export const checkImportAnswerSchema = z.strictObject({ stale: z.boolean(), after: count.nullable() })

/** Applies the next changes, each once. Repeat it until `done`. */
export const applyImportBodySchema = z.strictObject({
  ...importFields,
  diff_hash: z.string(),
  hierarchy: z.strictObject({ key: hierarchyKeySchema, name: z.string(), kind: z.enum(hierarchyKinds) }).optional(),
  /** Whether people whom the connector delivers have access only while active. */
  authoritative: z.literal(true).optional(),
})
export const applyImportAnswerSchema = z.strictObject({
  /** All applied changes. */
  applied: count,
  done: z.boolean(),
  /** Why no further change can be applied. */
  refused: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
})
export type ApplyImportBody = z.infer<typeof applyImportBodySchema>
export type ApplyImportAnswer = z.infer<typeof applyImportAnswerSchema>

/** Waits for changes in progress, then rejects later requests of the attempt. */
export const stopImportBodySchema = z.strictObject(importFields)
export const stopImportAnswerSchema = z.strictObject({ applied: count })

/** Lists rejected rows of a run. `applying`: only those of planned changes. */
export const importErrorsBodySchema = z.strictObject({ run_id: uuidSchema, after: z.int(), applying: z.boolean() })
export const importErrorsAnswerSchema = z.strictObject({
  errors: z.array(
    z.strictObject({
      seq: z.int(),
      row: z.int().nullable(),
      key: z.string().nullable(),
      field: z.string().nullable(),
      code: z.string(),
      message: z.string(),
      excerpt: z.string().nullable(),
    }),
  ),
  after: z.int().nullable(),
})
export type ImportErrors = z.infer<typeof importErrorsAnswerSchema>['errors']

const opsSchema = z.enum(['create', 'update', 'move', 'deactivate', 'reactivate'])

export const importChangesBodySchema = z.strictObject({
  run_id: uuidSchema,
  after: count,
  limit: z.int().min(1).max(1001),
  ops: z.array(opsSchema).nullable(),
  count: z.boolean(),
})
export type ImportChangesBody = z.infer<typeof importChangesBodySchema>
export const importChangeSchema = z.strictObject({
  seq: z.int(),
  op: opsSchema,
  source_key: z.string(),
  before: z.record(z.string(), z.json()).nullable(),
  after: z.record(z.string(), z.json()).nullable(),
  applied_at: timestampSchema.nullable(),
  error: z.string().nullable(),
})
export type ImportChange = z.infer<typeof importChangeSchema>
/** `after`: where the next page starts, if long changes made this one shorter than `limit`. */
export const importChangesAnswerSchema = z.strictObject({
  changes: z.array(importChangeSchema),
  after: z.int().min(0).nullable(),
  total: count.nullable(),
})
export type ImportChanges = z.infer<typeof importChangesAnswerSchema>

/** Lists missing rows of the calling connector's source, by key. */
export const missingRowsBodySchema = z.strictObject({
  dataset: z.enum(datasets),
  hierarchy: hierarchyKeySchema.optional(),
  after: z.string(),
  limit: z.int().min(1).max(1001),
  count: z.boolean(),
})
export type MissingRowsBody = z.infer<typeof missingRowsBodySchema>
export const missingSourceRowSchema = z.strictObject({ source_key: externalIdSchema, missing_since: timestampSchema })
export type MissingSourceRow = z.infer<typeof missingSourceRowSchema>
export const missingRowsAnswerSchema = z.strictObject({
  rows: z.array(missingSourceRowSchema),
  total: count.nullable(),
})

/** Streams all changes of a run, or all missing rows, as NDJSON without a time limit. */
export const exportImportBodySchema = z.union([
  importChangesBodySchema.pick({ run_id: true, after: true, ops: true }),
  missingRowsBodySchema.pick({ dataset: true, hierarchy: true, after: true }),
])

/** Deletes some rows of ended runs; with `changes` also their changes. */
export const clearImportsBodySchema = z.strictObject({
  run_ids: z.array(uuidSchema).min(1).max(50),
  changes: z.boolean(),
})
export const clearImportsAnswerSchema = z.strictObject({ more: z.boolean() })
