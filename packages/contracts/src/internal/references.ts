import { z } from 'zod'
import { uuidSchema } from '../common.ts'
import { maxBulkItems } from '../findings/bulk.ts'
import { evidenceRefSchema } from '../findings/finding.ts'

/** The maximum number of ids of a kind in a request: enough for a bulk request whose items have 50 each. */
export const maxReferences: number = maxBulkItems * 50

/** The maximum number of people in an item of a bulk request: the owner, verifier and approver of a plan. */
const maxPeopleOfItem = 3

/** The size of the largest request in bytes. */
export const maxReferencesBytes: number = 5 * 1024 * 1024

/** `POST /internal/v1/references/unknown` (findings → universe): returns the ids that the tenant does not have. */
export const unknownReferencesBodySchema = z.strictObject({
  entity_ids: z.array(uuidSchema).max(maxReferences),
  test_procedure_ids: z.array(uuidSchema).max(maxBulkItems),
  /** Absent if nobody is named. */
  person_ids: z
    .array(uuidSchema)
    .max(maxBulkItems * maxPeopleOfItem)
    .optional(),
})
export type AskedReferences = z.infer<typeof unknownReferencesBodySchema>

/** The unknown ids, unordered; `person_ids` if the request has any. */
export const unknownReferencesAnswerSchema = z.strictObject({
  entity_ids: z.array(uuidSchema),
  test_procedure_ids: z.array(uuidSchema),
  person_ids: z.array(uuidSchema).optional(),
})
export type UnknownReferences = z.infer<typeof unknownReferencesAnswerSchema>

/**
 * `POST /internal/v1/evidence/unknown` (findings → evidence): returns the references that are not evidence of the
 * tenant.
 */
export const unknownEvidenceBodySchema = z.strictObject({
  evidence_refs: z.array(evidenceRefSchema).min(1).max(maxReferences),
})

/**
 * The indexes of references whose id is unknown, whose size or digest differs, or whose file is quarantined, rejected
 * or purged.
 */
export const unknownEvidenceAnswerSchema = z.strictObject({ places: z.array(z.int().min(0)) })
export type UnknownEvidence = z.infer<typeof unknownEvidenceAnswerSchema>
