import { z } from 'zod'
import { createdBySchema, dateSchema, personRefSchema, nonBlankText, timestampSchema, uuidSchema } from '../common.ts'
import { classifications, collectionMethods } from './details.ts'
import { receiptSchema } from './receipt.ts'

export const evidenceStatuses = [
  'accepted',
  'quarantined',
  'released',
  'reviewed',
  'rejected',
  'superseded',
  'purged',
] as const

const { reference, sha256, scan } = receiptSchema.shape

export const attachmentSchema = z
  .object({
    test_procedure_id: z.string(),
    note: z.string().nullable(),
    attached_at: timestampSchema,
    attached_by: createdBySchema,
  })
  .meta({ id: 'EvidenceAttachment' })

export const maxListedAttachments = 20

export const evidenceFileSchema = z
  .object({
    id: uuidSchema,
    reference,
    file_name: z.string(),
    content_type: z.string(),
    detected_content_type: z.string().nullable(),
    size_bytes: z.int().min(1),
    sha256,
    received_at: timestampSchema,
    evidence_date: dateSchema.nullable(),
    period_start: dateSchema.nullable().meta({ description: 'First day of the period that it covers' }),
    period_end: dateSchema.nullable(),
    source_system: z.string().nullable().meta({ description: 'The system that it was collected from' }),
    collection_method: z.enum(collectionMethods).nullable(),
    collected_by: personRefSchema.nullable(),
    collected_at: timestampSchema.nullable(),
    query_text: z.string().nullable().meta({ description: 'The query or report parameters that produced it' }),
    classification: z.enum(classifications),
    description: z.string().nullable(),
    attachments: z.array(attachmentSchema).meta({
      description: `The attachments in order; a list has only the first ${maxListedAttachments} of each file`,
    }),
    test_procedure_ids: z.array(z.string()).meta({ description: 'The ids of all attachments, in the same order' }),
    version_of: uuidSchema.nullable(),
    revision: z.int().min(1),
    status: z.enum(evidenceStatuses).meta({
      description:
        '`quarantined`: contains malware. `released`: found harmless. `reviewed`, `rejected`: the verdict of an auditor. `superseded`: has a newer version that was accepted or released. `purged`: the bytes were deleted',
    }),
    scan,
    malware: z.string().nullable(),
    retention_until: dateSchema.meta({ description: 'It is stored at least until the end of this day (UTC)' }),
    decided_at: timestampSchema.nullable().meta({ description: 'When it was released, reviewed, rejected or purged' }),
    decided_by: createdBySchema.nullable(),
    decision_reason: z.string().nullable(),
    legal_hold: z
      .object({ reason: z.string(), set_at: timestampSchema, set_by: createdBySchema })
      .nullable()
      .meta({ description: 'It cannot be purged while it has a hold' }),
    created_by: createdBySchema,
  })
  .meta({ id: 'EvidenceFile' })
export type EvidenceFile = z.infer<typeof evidenceFileSchema>

const reasonSchema = nonBlankText(2_000)

export const decideBodySchema = z
  .strictObject({ reason: reasonSchema })
  .meta({ id: 'EvidenceDecision', examples: [{ reason: 'Looked at by the security team: a test signature.' }] })

export const reviewBodySchema = z
  .strictObject({ verdict: z.enum(['reviewed', 'rejected']), reason: reasonSchema })
  .meta({ id: 'EvidenceReview', examples: [{ verdict: 'rejected', reason: 'The list is of another period.' }] })

export const custodyEventSchema = z
  .object({
    id: uuidSchema,
    kind: z.enum([
      'received',
      'hashed',
      'scanned',
      'quarantined',
      'attached',
      'released',
      'reviewed',
      'rejected',
      'viewed',
      'legal_hold_set',
      'legal_hold_lifted',
      'purged',
    ]),
    detail: z.record(z.string(), z.unknown()),
    occurred_at: timestampSchema,
    actor: createdBySchema,
    request_id: z.string(),
  })
  .meta({ id: 'CustodyEvent' })
export type StoredCustodyEvent = z.infer<typeof custodyEventSchema>

export const evidencePolicySchema = z
  .object({
    retention_years: z.int().min(1).max(100).meta({ description: 'Counted from the day of receipt (UTC)' }),
    changed_at: timestampSchema.nullable().meta({ description: 'Null if nobody has changed it' }),
    changed_by: createdBySchema.nullable(),
    version: z.int().min(0),
  })
  .meta({ id: 'EvidencePolicy' })
export type EvidencePolicy = z.infer<typeof evidencePolicySchema>

export const updateEvidencePolicyBodySchema = z.strictObject({ retention_years: z.int().min(1).max(100) }).meta({
  id: 'UpdateEvidencePolicy',
  description: 'JSON Merge Patch (RFC 7396). It applies only to files that are received afterwards.',
  examples: [{ retention_years: 10 }],
})
