import { z } from 'zod'
import { createdBySchema, dateSchema, personRefSchema, saying, timestampSchema, uuidSchema } from '../common.ts'
import { classifications, collectionMethods } from './details.ts'
import { receiptSchema } from './receipt.ts'

/** What has become of a file: the last of these that has happened to it. */
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

/** That a file is evidence for a test procedure, since when, and who says so. */
export const attachmentSchema = z
  .object({
    test_procedure_id: z.string(),
    note: z.string().nullable(),
    attached_at: timestampSchema,
    attached_by: createdBySchema,
  })
  .meta({ id: 'EvidenceAttachment' })

/** Attachments of a file that a list tells with their notes: else a page of it could be larger than any memory. */
export const maxListedAttachments = 20

/** An evidence file as auditors and administrators of the tenant see it. Its bytes are in no answer. */
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
    source_system: z.string().nullable().meta({ description: 'Where it was taken from' }),
    collection_method: z.enum(collectionMethods).nullable(),
    collected_by: personRefSchema.nullable(),
    collected_at: timestampSchema.nullable(),
    query_text: z.string().nullable().meta({ description: 'The query or report parameters by which it was made' }),
    classification: z.enum(classifications),
    description: z.string().nullable(),
    attachments: z.array(attachmentSchema).meta({
      description: `What it is attached to, in that order; in a list the first ${maxListedAttachments}, all of them in the file by itself`,
    }),
    test_procedure_ids: z
      .array(z.string())
      .meta({ description: 'The ids of all that it is attached to, in that order' }),
    version_of: uuidSchema.nullable(),
    revision: z.int().min(1),
    status: z.enum(evidenceStatuses).meta({
      description:
        'In quarantine is what carries malware; released is what was found to be harmless; reviewed or rejected is what an auditor has judged; superseded is what has a newer version that counts, one that was accepted or released; of what is purged the bytes are gone',
    }),
    scan,
    malware: z.string().nullable(),
    retention_until: dateSchema.meta({ description: 'It is kept until the end of this day (UTC) at least' }),
    decided_at: timestampSchema.nullable().meta({ description: 'When it was released, reviewed, rejected or purged' }),
    decided_by: createdBySchema.nullable(),
    decision_reason: z.string().nullable(),
    legal_hold: z
      .object({ reason: z.string(), set_at: timestampSchema, set_by: createdBySchema })
      .nullable()
      .meta({ description: 'As long as there is one, nobody purges it' }),
    created_by: createdBySchema,
  })
  .meta({ id: 'EvidenceFile' })
export type EvidenceFile = z.infer<typeof evidenceFileSchema>

const reasonSchema = saying(2_000)

/** Why a person decides so: it stays in the custody trail. */
export const decideBodySchema = z
  .strictObject({ reason: reasonSchema })
  .meta({ id: 'EvidenceDecision', examples: [{ reason: 'Looked at by the security team: a test signature.' }] })

/** What an auditor makes of a file, and why. */
export const reviewBodySchema = z
  .strictObject({ verdict: z.enum(['reviewed', 'rejected']), reason: reasonSchema })
  .meta({ id: 'EvidenceReview', examples: [{ verdict: 'rejected', reason: 'The list is of another period.' }] })

/** One thing that happened to a file. */
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

/** How long a tenant keeps evidence. */
export const evidencePolicySchema = z
  .object({
    retention_years: z.int().min(1).max(100).meta({ description: 'From the day of receipt (UTC)' }),
    changed_at: timestampSchema.nullable().meta({ description: 'Null as long as nobody has changed it' }),
    changed_by: createdBySchema.nullable(),
    version: z.int().min(0),
  })
  .meta({ id: 'EvidencePolicy' })
export type EvidencePolicy = z.infer<typeof evidencePolicySchema>

export const updateEvidencePolicyBodySchema = z.strictObject({ retention_years: z.int().min(1).max(100) }).meta({
  id: 'UpdateEvidencePolicy',
  description: 'JSON Merge Patch (RFC 7396). It binds files that come from then on, and no others.',
  examples: [{ retention_years: 10 }],
})
