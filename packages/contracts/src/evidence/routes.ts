import { z } from 'zod'
import { resourceAddressSchema, text, uuidSchema } from '../common.ts'
import { defineRoute } from '../route.ts'
import { onceOrRepeated } from '../several-values.ts'
import { briefDetails, evidenceDetailsSchema, fileNameSchema, maxEvidenceBytes, maxFilesAtOnce } from './details.ts'
import { evidenceFileRoutes } from './file-routes.ts'
import { resumableRoutes } from './resumable.ts'
import { attachmentReceiptSchema, receiptSchema, testProceduresSchema } from './receipt.ts'

const base = {
  upstream: 'evidence',
  tag: 'Evidence',
  access: { kind: 'scope', scope: 'write:evidence' },
} as const

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
  file_name: fileNameSchema.optional().meta({ description: 'Required if the body is the file' }),
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
    'The body is the file, and the query describes it. Content-Digest or Repr-Digest (RFC 9530, sha-256) is verified if present. A form (multipart/form-data) is accepted as at `/api/v1/evidence/forms`, and its response is a list of receipts. Returns 404 for a missing test procedure and 409 `procedure_locked` for a completed one, and stores nothing. Nothing uploaded can be read back with a key: keep the receipts. An upload that takes more than four minutes needs to be resumable.',
  query: uploadQuery,
  answers: {
    201: {
      description: 'The receipt, or a list of receipts for a multipart upload',
      schema: z.union([receiptSchema, z.array(receiptSchema)]),
      withoutHeaders: ['ETag', 'Location'],
    },
  },
  problems: uploadProblems,
})

export const uploadEvidenceForm = defineRoute({
  ...base,
  ...fileBody,
  bodyMediaTypes: ['multipart/form-data'],
  form: z.strictObject({
    metadata: evidenceDetailsSchema.optional().meta({
      description: 'JSON that describes all files. Send it before the files: test procedures are checked first',
    }),
    file: z.array(z.file()).min(1).max(maxFilesAtOnce).meta({ description: 'Each file is a part with this name' }),
  }),
  id: 'evidence.upload-form',
  method: 'POST',
  path: '/api/v1/evidence/forms',
  summary: 'Upload evidence as a form',
  description:
    'Stores all files of the form or none, and returns a receipt for each, in their order. Each part `file` needs a file name. Returns 404 for a missing test procedure and 409 `procedure_locked` for a completed one. Nothing uploaded can be read back with a key: keep the receipts.',
  answers: {
    201: {
      description: 'The receipts, in the order of the files',
      schema: z.array(receiptSchema),
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
    'Like an upload of one file. It replaces a file that the same key uploaded within the last 30 days and that has no newer version; the older file stays stored. It has only the test procedures of this request. Returns 409 `procedure_locked` if the older file, or the file that it would have replaced without its quarantine, is evidence for a completed test procedure. A quarantined version replaces nothing until it is released.',
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
    'The same key must have uploaded the file within the last 30 days. An existing attachment does not change: `attachments` of the receipt has its note and time. The file is attached to all named test procedures or none: 404 if one is missing, 409 `procedure_locked` if one is completed. A quarantined, rejected or purged file cannot be attached (409 `conflict`), and a file can have at most 1,000 test procedures (422).',
  params: ownFile,
  body: z.strictObject({
    test_procedures: testProceduresSchema.refine((list) => list.length > 0, { message: 'must name a test procedure' }),
    note: text(1, 2_000).optional(),
  }),
  answers: {
    201: {
      description: 'The proof of the attachment',
      schema: attachmentReceiptSchema,
      withoutHeaders: ['ETag', 'Location'],
    },
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
  description: 'Anyone can verify the signature of a receipt with these keys.',
  answers: {
    200: { description: 'JSON Web Key Set', schema: z.object({ keys: z.array(z.record(z.string(), z.unknown())) }) },
  },
})

export const evidenceRoutes = [
  uploadEvidence,
  uploadEvidenceForm,
  ...resumableRoutes,
  reviseEvidence,
  attachEvidence,
  ...evidenceFileRoutes,
  receiptKeys,
] as const
