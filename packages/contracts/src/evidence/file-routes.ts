import { z } from 'zod'
import { dateSchema, line, momentSchema, uuidSchema } from '../common.ts'
import { addressFilter, anyOf, fieldsOf, pageQuery } from '../page.ts'
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
import { sha256Schema } from './receipt.ts'

const base = {
  upstream: 'evidence',
  tag: 'Evidence in custody',
  access: { kind: 'person', role: 'admin' },
} as const

const forAuditors = { ...base, access: { kind: 'person', role: 'auditor' } } as const

const oneFile = z.strictObject({ id: uuidSchema })

export const evidenceFileSorts = ['-received_at', 'received_at'] as const

export const listEvidenceFiles = defineRoute({
  ...forAuditors,
  id: 'evidence.list-files',
  method: 'GET',
  path: '/api/v1/evidence-files',
  summary: 'List evidence files',
  description: 'Returns metadata without the content. `status=quarantined` lists the quarantine.',
  query: z.strictObject({
    ...pageQuery,
    status: anyOf(evidenceStatuses).optional(),
    sha256: sha256Schema.optional(),
    retention_over: z.enum(['true', 'false']).optional().meta({ description: '`true`: files that can be purged' }),
    legal_hold: z.enum(['true', 'false']).optional().meta({ description: '`true`: files under a legal hold' }),
    test_procedure_id: addressFilter('Files that are attached to one of the test procedures'),
    received_after: momentSchema.optional(),
    received_before: momentSchema.optional(),
    evidence_from: dateSchema.optional().meta({ description: 'Files whose `evidence_date` is this day or later' }),
    evidence_to: dateSchema.optional().meta({ description: 'Files whose `evidence_date` is this day or earlier' }),
    q: line(2, 200).optional().meta({
      description: 'Consecutive words in the name, description, source or reference, case-insensitive',
    }),
    sort: z.enum(evidenceFileSorts).default('-received_at'),
    fields: fieldsOf(evidenceFileSchema),
  }),
  answers: {
    200: { description: 'Files, newest first by default', schema: z.array(evidenceFileSchema) },
  },
})

export const getEvidenceFile = defineRoute({
  ...forAuditors,
  id: 'evidence.get-file',
  method: 'GET',
  path: '/api/v1/evidence-files/:id',
  summary: 'Read the metadata of an evidence file',
  description: 'Includes hash, size, retention and reviews. The content has an address of its own.',
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
    'Not for keys. The custody trail records the access before the first byte is sent. The bytes are hashed while they are sent: if they differ from what was received, the response breaks off. Returns 409 `conflict` for a quarantined or purged file. Ranges are not supported.',
  params: oneFile,
  answers: {
    200: {
      description: 'The bytes as received. The metadata has the declared media type',
      mediaType: 'application/octet-stream',
      headers: {
        'Content-Disposition': '`attachment`, with the name that the sender gave the file (RFC 6266, RFC 8187)',
        'Content-Digest': 'The SHA-256 of the bytes (RFC 9530)',
        'Repr-Digest': 'The same digest',
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
  summary: 'Read the custody trail of an evidence file, oldest first',
  description: 'Who stored, viewed, reviewed, released or purged the file, and when.',
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
    'For a file that was checked and found harmless. Its sender can then attach it, and it replaces the older version, if any. Repeating the request returns the same response. Returns 409 `conflict` if the file is not in quarantine, and 409 `procedure_locked` if it would replace evidence for a completed test procedure.',
  params: oneFile,
  body: decideBodySchema,
  answers: { 200: { description: 'The file', schema: evidenceFileSchema } },
  problems: ['not_found', 'conflict', 'procedure_locked', 'invalid_content'],
})

export const purgeEvidence = defineRoute({
  ...base,
  id: 'evidence.purge',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/purge',
  summary: 'Delete the bytes of a file after its retention period',
  description:
    'The metadata and the custody trail remain. Repeating the request returns the same response and deletes what could not be deleted before. Returns 409 `conflict` during the retention period or a legal hold.',
  params: oneFile,
  body: decideBodySchema,
  answers: { 200: { description: 'The file', schema: evidenceFileSchema } },
  problems: ['not_found', 'conflict', 'invalid_content'],
})

export const holdEvidence = defineRoute({
  ...base,
  id: 'evidence.hold',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/hold',
  summary: 'Put a file under a legal hold',
  description:
    'The file cannot be purged during the hold, even after its retention period. Repeating the request returns the same response. Returns 409 `conflict` for a purged file.',
  params: oneFile,
  body: decideBodySchema,
  answers: { 200: { description: 'The file', schema: evidenceFileSchema } },
  problems: ['not_found', 'conflict', 'invalid_content'],
})

export const liftHoldOfEvidence = defineRoute({
  ...base,
  id: 'evidence.lift-hold',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/lift-hold',
  summary: 'Lift the legal hold of a file',
  description: 'Has no effect without a hold. The hold can be set again.',
  params: oneFile,
  body: decideBodySchema,
  answers: { 200: { description: 'The file', schema: evidenceFileSchema } },
  problems: ['not_found', 'invalid_content'],
})

export const reviewEvidence = defineRoute({
  ...forAuditors,
  id: 'evidence.review',
  method: 'POST',
  path: '/api/v1/evidence-files/:id/review',
  summary: 'Review a file',
  description:
    'Records one verdict on an accepted or released file: `reviewed` or `rejected`, with a reason. Repeating it returns the same response. Returns 409 `conflict` for a different verdict, and for a quarantined, superseded or purged file.',
  params: oneFile,
  body: reviewBodySchema,
  answers: { 200: { description: 'The file', schema: evidenceFileSchema } },
  problems: ['not_found', 'conflict', 'invalid_content'],
})

export const getEvidencePolicy = defineRoute({
  ...base,
  id: 'evidence.policy',
  method: 'GET',
  path: '/api/v1/evidence-policy',
  summary: 'Read how long the tenant stores evidence',
  description: 'New evidence gets its retention period from this policy.',
  answers: { 200: { description: 'The policy', schema: evidencePolicySchema }, 304: { description: 'Not modified' } },
})

export const updateEvidencePolicy = defineRoute({
  ...base,
  id: 'evidence.change-policy',
  method: 'PATCH',
  path: '/api/v1/evidence-policy',
  summary: 'Change how long the tenant stores evidence',
  description: 'Requires If-Match. Existing files keep their retention period.',
  body: updateEvidencePolicyBodySchema,
  bodyMediaTypes: ['application/merge-patch+json', 'application/json'],
  answers: { 200: { description: 'The policy', schema: evidencePolicySchema } },
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
