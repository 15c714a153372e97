import { z } from 'zod'
import { dateSchema, line, momentSchema, uuidSchema } from '../common.ts'
import { anyId, anyOf, fieldsOf, pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import {
  custodyEventSchema,
  decideBodySchema,
  evidenceFileSchema,
  evidencePolicySchema,
  evidenceStatuses,
  reviewBodySchema,
  updateEvidencePolicyBodySchema,
} from './file.ts'
import { senderDigestSchema } from './receipt.ts'

const base = {
  upstream: 'evidence',
  tag: 'Evidence in custody',
  access: { kind: 'person', role: 'admin' },
} as const

/** To look at evidence, and to say what it is worth, is what auditors do; what becomes of it is for administrators. */
const forAuditors = { ...base, access: { kind: 'person', role: 'auditor' } } as const

const oneFile = z.strictObject({ id: uuidSchema })

/** What a list of evidence files can be sorted by: in the order in which they came, or the other way round. */
export const evidenceFileSorts = ['-received_at', 'received_at'] as const

export const listEvidenceFiles = defineRoute({
  ...forAuditors,
  id: 'evidence.list-files',
  method: 'GET',
  path: '/api/v1/evidence-files',
  summary: 'List evidence files',
  description: 'What is known of them; their bytes are in no answer. `status=quarantined` is the quarantine.',
  query: z.strictObject({
    ...pageQuery,
    status: anyOf(evidenceStatuses).optional(),
    sha256: senderDigestSchema.optional(),
    retention_over: z
      .enum(['true', 'false'])
      .optional()
      .meta({ description: '`true`: those that may be purged, and have not been' }),
    legal_hold: z.enum(['true', 'false']).optional().meta({ description: '`true`: those that are under a legal hold' }),
    test_procedure_id: anyId('Files that are attached to one of the test procedures'),
    received_after: momentSchema.optional(),
    received_before: momentSchema.optional(),
    evidence_from: dateSchema.optional().meta({ description: 'Files whose `evidence_date` is this day or later' }),
    evidence_to: dateSchema.optional().meta({ description: 'Files whose `evidence_date` is this day or earlier' }),
    q: line(2, 200).optional().meta({
      description: 'Words that stand together in the name, description, source or reference, in any case',
    }),
    sort: z.enum(evidenceFileSorts).default('-received_at'),
    fields: fieldsOf(evidenceFileSchema),
  }),
  answers: {
    200: { description: 'Files, newest first where not asked otherwise', schema: z.array(evidenceFileSchema) },
  },
})

export const getEvidenceFile = defineRoute({
  ...forAuditors,
  id: 'evidence.get-file',
  method: 'GET',
  path: '/api/v1/evidence-files/:id',
  summary: 'Read what is known of an evidence file',
  params: oneFile,
  query: z.strictObject({ fields: fieldsOf(evidenceFileSchema) }),
  answers: { 200: { description: 'The file', schema: evidenceFileSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const readEvidenceContent = defineRoute({
  ...forAuditors,
  id: 'evidence.read-content',
  method: 'GET',
  path: '/api/v1/evidence-files/:id/content',
  summary: 'Download an evidence file',
  description:
    'For auditors and administrators, never for a key. That it was looked at, and by whom, is in its custody before the first byte leaves. The bytes are hashed on their way: where the store no longer holds what was received, the answer breaks off before its end. 409 `conflict` for a file that is in quarantine, or purged. Ranges are not answered.',
  params: oneFile,
  answers: {
    200: {
      description:
        'The bytes as they were received, whatever they are; what they were declared to be is known of the file',
      mediaType: 'application/octet-stream',
      headers: {
        'Content-Disposition': 'To be kept as a file, under the name that its sender gave it (RFC 6266, RFC 8187)',
        'Content-Digest': 'The SHA-256 of the bytes (RFC 9530)',
        'Repr-Digest': 'The same',
      },
    },
  },
  problems: ['not_found', 'conflict'],
})

export const listCustodyEvents = defineRoute({
  ...base,
  id: 'evidence.list-custody',
  method: 'GET',
  path: '/api/v1/evidence-files/:id/custody',
  summary: 'Read who had an evidence file in hand, oldest first',
  params: oneFile,
  query: z.strictObject(pageQuery),
  answers: { 200: { description: 'Events', schema: z.array(custodyEventSchema) } },
  problems: ['not_found'],
})

export const releaseEvidence = defineRoute({
  ...base,
  id: 'evidence.release',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/release',
  summary: 'Release a file from quarantine',
  description:
    'For what was looked at and found to be harmless. Its sender can then attach it, and it replaces what it is a newer version of. Again: the same answer. 409 `conflict` for a file that is not in quarantine, 409 `procedure_locked` where it would replace evidence for a test procedure that is completed.',
  params: oneFile,
  body: decideBodySchema,
  answers: { 200: { description: 'The file as it is now', schema: evidenceFileSchema } },
  problems: ['not_found', 'conflict', 'procedure_locked', 'invalid_content'],
})

export const purgeEvidence = defineRoute({
  ...base,
  id: 'evidence.purge',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/purge',
  summary: 'Delete the bytes of a file whose retention is over',
  description:
    'What is known of the file stays, and so does its custody trail. Again: the same answer, and what could not be deleted before is. 409 `conflict` while the file is to be kept, or under a legal hold.',
  params: oneFile,
  body: decideBodySchema,
  answers: { 200: { description: 'The file as it is now', schema: evidenceFileSchema } },
  problems: ['not_found', 'conflict', 'invalid_content'],
})

export const holdEvidence = defineRoute({
  ...base,
  id: 'evidence.hold',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/hold',
  summary: 'Put a file under a legal hold',
  description:
    'As long as it lasts nobody purges the file, however long its retention has been over. Again: the same answer. 409 `conflict` for a file that is purged.',
  params: oneFile,
  body: decideBodySchema,
  answers: { 200: { description: 'The file as it is now', schema: evidenceFileSchema } },
  problems: ['not_found', 'conflict', 'invalid_content'],
})

export const liftHoldOfEvidence = defineRoute({
  ...base,
  id: 'evidence.lift-hold',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/lift-hold',
  summary: 'Lift the legal hold of a file',
  description: 'Where there is none, nothing changes. It can be set again.',
  params: oneFile,
  body: decideBodySchema,
  answers: { 200: { description: 'The file as it is now', schema: evidenceFileSchema } },
  problems: ['not_found', 'invalid_content'],
})

export const reviewEvidence = defineRoute({
  ...forAuditors,
  id: 'evidence.review',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/review',
  summary: 'Say what a file is worth as evidence',
  description:
    'A verdict on a file that is accepted or released: `reviewed` or `rejected`, with a reason, once. The same again: the same answer. 409 `conflict` for another one, and for a file that is in quarantine, superseded or purged.',
  params: oneFile,
  body: reviewBodySchema,
  answers: { 200: { description: 'The file as it is now', schema: evidenceFileSchema } },
  problems: ['not_found', 'conflict', 'invalid_content'],
})

export const getEvidencePolicy = defineRoute({
  ...base,
  id: 'evidence.policy',
  method: 'GET',
  path: '/api/v1/evidence-policy',
  summary: 'How long the tenant keeps evidence',
  answers: { 200: { description: 'The policy', schema: evidencePolicySchema }, 304: { description: 'Not modified' } },
})

export const updateEvidencePolicy = defineRoute({
  ...base,
  id: 'evidence.change-policy',
  method: 'PATCH',
  path: '/api/v1/evidence-policy',
  summary: 'Change how long the tenant keeps evidence',
  description: 'With If-Match. Files that there are stay for as long as was said when they came.',
  body: updateEvidencePolicyBodySchema,
  bodyMediaTypes: ['application/merge-patch+json', 'application/json'],
  answers: { 200: { description: 'The policy as it is now', schema: evidencePolicySchema } },
  problems: ['precondition_failed', 'precondition_required', 'invalid_content'],
})

export const evidenceFileRoutes = [
  listEvidenceFiles,
  getEvidenceFile,
  readEvidenceContent,
  listCustodyEvents,
  releaseEvidence,
  purgeEvidence,
  holdEvidence,
  liftHoldOfEvidence,
  reviewEvidence,
  getEvidencePolicy,
  updateEvidencePolicy,
] as const
