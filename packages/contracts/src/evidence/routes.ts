import { z } from 'zod'
import { timestampSchema, uuidSchema } from '../common.ts'
import { defineRoute } from '../route.ts'

/**
 * What the uploader keeps: the proof that exactly these bytes were received at this time. `jws` is a compact JWS
 * (RFC 7515, EdDSA with Ed25519, RFC 8037) over the other fields.
 */
export const receiptSchema = z
  .object({
    id: uuidSchema,
    reference: z.string().meta({ examples: ['EV-2026-000042'] }),
    file_name: z.string(),
    content_type: z.string().meta({ description: 'As declared' }),
    detected_content_type: z
      .string()
      .nullable()
      .meta({ description: 'As the first bytes say; null where they say nothing' }),
    size_bytes: z.int().min(1),
    sha256: z.string().regex(/^[0-9a-f]{64}$/),
    received_at: timestampSchema,
    test_procedures: z.array(z.string()),
    scan: z.enum(['not_configured']).meta({ description: 'Whether a malware scanner looked at the bytes' }),
    jws: z.string(),
  })
  .meta({ id: 'EvidenceReceipt' })
export type Receipt = z.infer<typeof receiptSchema>

/** The largest evidence file, in bytes (5 GiB). */
export const maxEvidenceBytes = 5 * 1024 * 1024 * 1024

export const uploadEvidence = defineRoute({
  id: 'evidence.upload',
  method: 'POST',
  path: '/api/v1/evidence',
  upstream: 'evidence',
  access: { kind: 'scope', scope: 'write:evidence' },
  tag: 'Evidence',
  summary: 'Upload one evidence file',
  description:
    'The body is the file. `file_name` and `test_procedure` are query parameters; Content-Digest (RFC 9530, sha-256) is checked when given. Nothing uploaded can be read back with a key: keep the receipt.',
  query: z.strictObject({
    file_name: z
      .string()
      .transform((name) => name.normalize('NFC'))
      .pipe(
        z
          .string()
          .min(1)
          .max(255)
          .regex(
            /^[^\p{Cc}\p{Cs}/\\\u202a-\u202e\u2066-\u2069]+$/u,
            'must be a bare file name without control characters',
          ),
      )
      .refine((name) => name !== '.' && name !== '..', { message: 'must be a file name' }),
    test_procedure: z
      .union([z.string(), z.array(z.string())])
      .transform((value) => (Array.isArray(value) ? value : [value]))
      .pipe(z.array(z.string().regex(/^(ref:|ext:)?[^\p{Cc}]{1,255}$/u)).max(50))
      .optional(),
  }),
  bodyMediaTypes: ['*/*'],
  maxBodyBytes: maxEvidenceBytes,
  assertionSeconds: 270,
  answers: { 201: { description: 'The receipt', schema: receiptSchema } },
  problems: [
    'invalid_content',
    'content_too_large',
    'digest_mismatch',
    'unsupported_media_type',
    'request_timeout',
    'insufficient_storage',
  ],
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

export const evidenceRoutes = [uploadEvidence, receiptKeys] as const
