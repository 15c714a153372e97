import { z } from 'zod'
import { resourceAddressSchema, text, uuidSchema } from '../common.ts'
import { defineRoute } from '../route.ts'
import { onceOrRepeated } from '../several-values.ts'
import { briefDetails, fileNameSchema, maxEvidenceBytes } from './details.ts'
import { evidenceFileRoutes } from './file-routes.ts'
import { resumableRoutes } from './resumable.ts'
import { attachmentReceiptSchema, receiptSchema, testProceduresSchema } from './receipt.ts'

const base = {
  upstream: 'evidence',
  tag: 'Evidence',
  access: { kind: 'scope', scope: 'write:evidence' },
} as const

/** How a file travels, the same for a first upload and for a revision. */
const fileBody = {
  bodyMediaTypes: ['*/*'],
  maxBodyBytes: maxEvidenceBytes,
  assertionSeconds: 270,
} as const

const uploadProblems = [
  'content_too_large',
  'invalid_content',
  'malformed_json',
  'digest_mismatch',
  'unsupported_media_type',
  'request_timeout',
  'insufficient_storage',
  'quota_exceeded',
  'not_found',
  'procedure_locked',
] as const

const uploadQuery = z.strictObject({
  file_name: fileNameSchema.optional().meta({ description: 'Needed where the body is the file itself' }),
  test_procedure: onceOrRepeated(50, () => ({ one: resourceAddressSchema }))
    .transform((value) => (Array.isArray(value) ? value : [value]))
    .pipe(testProceduresSchema)
    .optional()
    .meta({ description: 'A test procedure that the file is evidence for: an id, `ref:` or `ext:`; may be repeated' }),
  ...briefDetails,
})

export const uploadEvidence = defineRoute({
  ...base,
  ...fileBody,
  id: 'evidence.upload',
  method: 'POST',
  path: '/api/v1/evidence',
  summary: 'Upload evidence',
  description:
    'The body is the file, and the query says what it is; Content-Digest or Repr-Digest (RFC 9530, sha-256) is checked when given. Or the body is multipart/form-data: 1 to 10 parts `file` and a part `metadata` (JSON, EvidenceDetails), best first, of which all are taken or none; the answer is then a list of receipts, in the order of the files. A test procedure that is not there is 404, one that is completed 409 `procedure_locked`, and nothing is kept. Nothing uploaded can be read back with a key: keep the receipts. An upload that takes more than four minutes needs to be resumable.',
  query: uploadQuery,
  answers: {
    201: {
      description: 'The receipt; of a multipart upload, a list of them',
      schema: z.union([receiptSchema, z.array(receiptSchema)]),
      withoutHeaders: ['ETag', 'Location'],
    },
  },
  problems: uploadProblems,
})

const ownFile = z.strictObject({ id: uuidSchema })

export const reviseEvidence = defineRoute({
  ...base,
  ...fileBody,
  id: 'evidence.revise',
  method: 'POST',
  path: '/api/v1/evidence/:id/revisions',
  summary: 'Upload a new version of a file',
  description:
    'As an upload, of one file. It replaces a file that the same key has uploaded within the last 30 days and that has no newer version; the older one is kept. It has no test procedures but those that it is given. 409 `procedure_locked` where the older one, or what it would have replaced were it not in quarantine, is evidence for a test procedure that is completed. A version in quarantine replaces nothing: the older one counts until there is one that is accepted or released.',
  params: ownFile,
  query: uploadQuery,
  answers: { 201: { description: 'The receipt', schema: receiptSchema, withoutHeaders: ['ETag', 'Location'] } },
  problems: ['conflict', ...uploadProblems],
})

export const attachEvidence = defineRoute({
  ...base,
  id: 'evidence.attach',
  method: 'POST',
  path: '/api/v1/evidence/:id/attachments',
  summary: 'Attach a file to test procedures',
  description:
    'The file is one that the same key has uploaded within the last 30 days. To attach it where it is attached already changes nothing: `attachments` of the receipt says with which note, and since when. It is attached to all that are named, or to none: 404 where one is not there, 409 `procedure_locked` where one is completed. A file that is in quarantine, rejected or purged is attached to nothing (409 `conflict`), and no file to more than 1,000 test procedures (422).',
  params: ownFile,
  body: z.strictObject({
    test_procedures: testProceduresSchema.refine((list) => list.length > 0, { message: 'must name a test procedure' }),
    note: text(1, 2_000).optional(),
  }),
  answers: {
    201: { description: 'The proof of it', schema: attachmentReceiptSchema, withoutHeaders: ['ETag', 'Location'] },
  },
  problems: ['not_found', 'conflict', 'procedure_locked'],
})

export const receiptKeys = defineRoute({
  id: 'evidence.receipt-keys',
  method: 'GET',
  path: '/.well-known/jwks.json',
  upstream: 'evidence',
  access: { kind: 'public' },
  tag: 'Evidence',
  summary: 'Public keys that verify receipts (RFC 7517)',
  answers: {
    200: { description: 'JSON Web Key Set', schema: z.object({ keys: z.array(z.record(z.string(), z.unknown())) }) },
  },
})

export const evidenceRoutes = [
  uploadEvidence,
  ...resumableRoutes,
  reviseEvidence,
  attachEvidence,
  ...evidenceFileRoutes,
  receiptKeys,
] as const
