import { z } from 'zod'
import { externalIdSchema, timestampSchema, uuidSchema } from '../common.ts'
import { datasets, missingPolicies } from '../sync/connector.ts'
import { hierarchyKeySchema, hierarchyKinds } from '../universe/hierarchy.ts'

/**
 * The internal API between the sync service and the universe service for runs of connectors. The caller of a request is the
 * connector. A request of an earlier attempt at a run gets 409.
 */

const importFields = { run_id: uuidSchema, attempt: z.int().min(1).max(2_147_483_647) }

/** The maximum number of rows in a request or an answer. */
export const maxImportRows = 5000
/** Rows of a source are numbered up to this. */
export const maxSourceRow = 9_999_999
/** The number of bytes of a row's hash. */
export const rowHashBytes = 16
/** The maximum number of hashes in a request or an answer. */
export const maxImportHashes = 100_000

const hashesSchema = z.base64().max((Math.ceil((maxImportHashes * rowHashBytes) / 3) + 1) * 4)

/** `POST /internal/v1/imports/begin`: prepares an import, and removes what an earlier attempt has staged. */
export const beginImportBodySchema = z.strictObject({
  ...importFields,
  dataset: z.enum(datasets),
  /** The hierarchy; only for the dataset `org_structure`. */
  hierarchy: hierarchyKeySchema.optional(),
  read_at: timestampSchema,
})
export type BeginImportBody = z.infer<typeof beginImportBodySchema>

/** The number of rows that the connector has brought before, missing ones included. */
export const beginImportAnswerSchema = z.strictObject({ known: z.int() })

/** `POST /internal/v1/imports/hashes`: hashes of rows that are stored as the connector brought them, by key. */
export const importHashesBodySchema = z.strictObject({ ...importFields, after: z.string() })
/** The hashes one after the other; `last` is the key to go on behind, or null after the last page. */
export const importHashesAnswerSchema = z.strictObject({ hashes: z.base64(), last: z.string().nullable() })

const jsonObjectOnOneLine = /^\{[^\n]*\}$/

/** A row of the source. Without `content`, its JSON on one line, it is invalid. */
const importRowSchema = z.strictObject({
  row: z.int().min(1).max(maxSourceRow),
  key: z.string().optional(),
  parent: z.string().optional(),
  content: z.string().regex(jsonObjectOnOneLine).optional(),
  hash: z.base64().optional(),
})
export type ImportRow = z.infer<typeof importRowSchema>

/** `POST /internal/v1/imports/rows`: stages rows. Rows with a known hash are not sent; `gone` are the known hashes that no row has. */
export const importRowsBodySchema = z.strictObject({
  ...importFields,
  rows: z.array(importRowSchema).max(maxImportRows),
  gone: hashesSchema.optional(),
})

/**
 * `POST /internal/v1/imports/plan`: compares the staged rows with the stored ones, some of them a request: repeat it with the
 * `after` of the answer until the state is `planned`.
 */
export const planImportBodySchema = z.strictObject({
  ...importFields,
  after: z.int().min(0),
  /** How many hashes the source was compared with; null if all of its rows were sent. */
  hashes: z.int().min(0).nullable(),
  missing_policy: z.enum(missingPolicies),
})
export type PlanImportBody = z.infer<typeof planImportBodySchema>

const count = z.int().min(0)

export const importPlanSchema = z.strictObject({
  state: z.literal('planned'),
  diff_hash: z.string(),
  /** Of the rows that were sent. */
  valid: count,
  invalid: count,
  created: count,
  updated: count,
  moved: count,
  reactivated: count,
  deactivated: count,
  /** Rows that the connector brought before and that were present. */
  known: count,
  /** Rows that no connector brings any longer. */
  missing: count,
  /** Those that were present before. */
  lately_missing: count,
  /** Rows among `deactivated` that are missing. */
  gone: count,
  /** Missing rows that are drafts and cannot become inactive. */
  drafts: count,
  /** Rows without a key. */
  keyless: count,
  /** Keys of the first rows that will be listed as missing. */
  flagged: z.array(z.string()),
  /** Fields that all rows lose. */
  lost_fields: z.array(z.strictObject({ field: z.string(), rows: count })),
})
export type ImportPlan = z.infer<typeof importPlanSchema>

export const planImportAnswerSchema = z.discriminatedUnion('state', [
  /** Stored rows have changed, or a key is repeated: the source must be read again, without hashes. */
  z.strictObject({ state: z.literal('read_again') }),
  z.strictObject({ state: z.literal('comparing'), after: count }),
  importPlanSchema,
])
export type PlanImportAnswer = z.infer<typeof planImportAnswerSchema>

/** `POST /internal/v1/imports/rollback`: plans what undoes another run, some changes a request, the last ones first. */
export const planRollbackBodySchema = z.strictObject({
  ...importFields,
  dataset: z.enum(datasets),
  hierarchy: hierarchyKeySchema.optional(),
  read_at: timestampSchema,
  rollback_of: uuidSchema,
  /** The `below` of the previous answer; absent in the first request, which removes what an earlier attempt has planned. */
  below: z.int().optional(),
})
export const rollbackPlanSchema = z.strictObject({
  /** Where to go on, or null after the last change. */
  below: z.int().nullable(),
  /** Rows of this request that cannot be undone completely. */
  stay: count,
  diff_hash: z.string(),
  created: count,
  updated: count,
  moved: count,
  reactivated: count,
  deactivated: count,
})
export type RollbackPlan = z.infer<typeof rollbackPlanSchema>

/** `POST /internal/v1/imports/undoable`: whether a run can be rolled back. */
export const undoableBodySchema = z.strictObject({ run_id: uuidSchema, dataset: z.enum(datasets) })
export const undoableAnswerSchema = z.strictObject({
  /** A later run of the connector has changed the same rows. */
  changed: z.boolean(),
  /** Something may be left to undo. */
  left: z.boolean(),
})

/** `POST /internal/v1/imports/check`: whether any of the changes after `after` is out of date. */
export const checkImportBodySchema = z.strictObject({ run_id: uuidSchema, after: count })
/** `after` is where to go on, or null after the last change. */
export const checkImportAnswerSchema = z.strictObject({ stale: z.boolean(), after: count.nullable() })

/** `POST /internal/v1/imports/apply`: applies the next changes, once each. Repeat it until `done`. */
export const applyImportBodySchema = z.strictObject({
  ...importFields,
  diff_hash: z.string(),
  /** The hierarchy as its connector describes it. */
  hierarchy: z.strictObject({ key: hierarchyKeySchema, name: z.string(), kind: z.enum(hierarchyKinds) }).optional(),
})
export const applyImportAnswerSchema = z.strictObject({
  /** Changes applied in all. */
  applied: count,
  done: z.boolean(),
  /** Why nothing more can be applied: what is wrong concerns all rows. */
  refused: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
})
export type ApplyImportBody = z.infer<typeof applyImportBodySchema>
export type ApplyImportAnswer = z.infer<typeof applyImportAnswerSchema>

/** `POST /internal/v1/imports/stop`: ends an import. Waits for changes that are being applied, and rejects this attempt. */
export const stopImportBodySchema = z.strictObject(importFields)
export const stopImportAnswerSchema = z.strictObject({ applied: count })

/** `POST /internal/v1/imports/errors`: the rejected rows of a run, in their order. `applying`: only those of planned changes. */
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
  /** Where to go on, or null after the last one. */
  after: z.int().nullable(),
})
export type ImportErrors = z.infer<typeof importErrorsAnswerSchema>['errors']

const opsSchema = z.enum(['create', 'update', 'move', 'deactivate', 'reactivate'])

/** `POST /internal/v1/imports/changes`: the changes of a run, in their order. */
export const importChangesBodySchema = z.strictObject({
  run_id: uuidSchema,
  after: count,
  limit: z.int().min(1).max(1001),
  ops: z.array(opsSchema).nullable(),
  count: z.boolean(),
})
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
/** If long changes make the page shorter than `limit`, `after` is where to go on. */
export const importChangesAnswerSchema = z.strictObject({
  changes: z.array(importChangeSchema),
  after: z.int().min(0).nullable(),
  total: count.nullable(),
})
export type ImportChanges = z.infer<typeof importChangesAnswerSchema>

/** `POST /internal/v1/imports/missing`: what the source of the calling connector lacks, by key. */
export const missingRowsBodySchema = z.strictObject({
  dataset: z.enum(datasets),
  hierarchy: hierarchyKeySchema.optional(),
  after: z.string(),
  limit: z.int().min(1).max(1001),
  count: z.boolean(),
})
export const missingSourceRowSchema = z.strictObject({ source_key: externalIdSchema, missing_since: timestampSchema })
export type MissingSourceRow = z.infer<typeof missingSourceRowSchema>
export const missingRowsAnswerSchema = z.strictObject({
  rows: z.array(missingSourceRowSchema),
  total: count.nullable(),
})

/** `POST /internal/v1/imports/export`: all changes of a run, or all missing rows, one JSON text a line, however long it takes. */
export const exportImportBodySchema = z.union([
  importChangesBodySchema.pick({ run_id: true, after: true, ops: true }),
  missingRowsBodySchema.pick({ dataset: true, hierarchy: true, after: true }),
])

/** `POST /internal/v1/imports/clear`: removes rows of ended runs, some of them a request; `changes`: their changes too. */
export const clearImportsBodySchema = z.strictObject({
  run_ids: z.array(uuidSchema).min(1).max(50),
  changes: z.boolean(),
})
export const clearImportsAnswerSchema = z.strictObject({ more: z.boolean() })
