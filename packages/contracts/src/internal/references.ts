import { z } from 'zod'
import { uuidSchema } from '../common.ts'
import { maxBulkItems } from '../findings/bulk.ts'
import { evidenceRefSchema } from '../findings/finding.ts'

/** Most ids of a kind in one question: what a bulk request names where each of its items names 50. */
export const maxReferences: number = maxBulkItems * 50

/** Most people whom an item of a bulk request names: the owner of a plan, who verifies it and who has approved an extension. */
const maxPeopleOfItem = 3

/** A question of that size, in bytes. */
export const maxReferencesBytes: number = 5 * 1024 * 1024

/** `POST /internal/v1/references/unknown` (findings → universe): which of these ids name nothing of the tenant's. */
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

/** Those ids, in no order; `person_ids` where people were asked about. */
export const unknownReferencesAnswerSchema = z.strictObject({
  entity_ids: z.array(uuidSchema),
  test_procedure_ids: z.array(uuidSchema),
  person_ids: z.array(uuidSchema).optional(),
})
export type UnknownReferences = z.infer<typeof unknownReferencesAnswerSchema>

/** `POST /internal/v1/evidence/unknown` (findings → evidence): which of these are no evidence of the tenant's. */
export const unknownEvidenceBodySchema = z.strictObject({
  evidence_refs: z.array(evidenceRefSchema).min(1).max(maxReferences),
})

/** Their places in the list: ids that name nothing, whose size or digest is another, or that name what is in quarantine, rejected or purged. */
export const unknownEvidenceAnswerSchema = z.strictObject({ places: z.array(z.int().min(0)) })
export type UnknownEvidence = z.infer<typeof unknownEvidenceAnswerSchema>
