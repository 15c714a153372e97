import { z } from 'zod'
import { resourceAddressSchema, uuidSchema } from '../common.ts'
import { maxBulkItems } from '../findings/bulk.ts'
import { evidenceRefSchema } from '../findings/finding.ts'

export const maxReferences: number = maxBulkItems * 50

const maxPeopleOfItem = 3

export const maxReferencesBytes: number = 5 * 1024 * 1024

/** `POST /internal/v1/references/unknown` (findings → universe). */
export const unknownReferencesBodySchema = z.strictObject({
  entity_ids: z.array(uuidSchema).max(maxReferences),
  test_procedure_ids: z.array(uuidSchema).max(maxBulkItems),
  person_ids: z
    .array(uuidSchema)
    .max(maxBulkItems * maxPeopleOfItem)
    .optional(),
})
export type ReferenceQuery = z.infer<typeof unknownReferencesBodySchema>

export const unknownReferencesAnswerSchema = z.strictObject({
  entity_ids: z.array(uuidSchema),
  test_procedure_ids: z.array(uuidSchema),
  person_ids: z.array(uuidSchema).optional(),
})
export type UnknownReferences = z.infer<typeof unknownReferencesAnswerSchema>

/** `POST /internal/v1/references/resolve` (findings → universe). */
export const resolveReferencesBodySchema = z.strictObject({
  entities: z.array(resourceAddressSchema).max(maxReferences),
  test_procedures: z.array(resourceAddressSchema).max(maxBulkItems),
})
export type RequestedReferences = z.infer<typeof resolveReferencesBodySchema>

/** One id per address, in order; null if missing. */
export const resolveReferencesAnswerSchema = z.strictObject({
  entities: z.array(uuidSchema.nullable()),
  test_procedures: z.array(uuidSchema.nullable()),
})
export type ResolvedAddresses = z.infer<typeof resolveReferencesAnswerSchema>

/** `POST /internal/v1/evidence/unknown` (findings → evidence). */
export const unknownEvidenceBodySchema = z.strictObject({
  evidence_refs: z.array(evidenceRefSchema).min(1).max(maxReferences),
})

/** Indexes of references that are unknown, or whose file differs, is quarantined, rejected or purged. */
export const unknownEvidenceAnswerSchema = z.strictObject({ places: z.array(z.int().min(0)) })
export type UnknownEvidence = z.infer<typeof unknownEvidenceAnswerSchema>
