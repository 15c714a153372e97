import { z } from 'zod'
import { dateSchema, resourceAddressSchema, timestampSchema, uuidSchema } from '../common.ts'

export const sha256Schema = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({
    description: 'SHA-256 in lower-case hex',
    examples: ['5f8f04f6a3a892aaabbddb6cf273894493773960d4a325b105fee46eef4304f1'],
  })

const jwsSchema = z.string().meta({
  description: 'Compact JWS (RFC 7515; EdDSA with Ed25519, RFC 8037) over the other fields',
  examples: ['eyJhbGciOiJFZERTQSJ9.e30.c2lnbmF0dXJl'],
})

const referenceSchema = z.string().meta({ examples: ['EV-2026-000042'] })

export const receiptSchema = z
  .object({
    id: uuidSchema,
    reference: referenceSchema,
    file_name: z.string(),
    content_type: z.string().meta({ description: 'The declared media type' }),
    detected_content_type: z
      .string()
      .nullable()
      .meta({ description: 'Detected from the first bytes; null if unknown' }),
    size_bytes: z.int().min(1),
    sha256: sha256Schema,
    received_at: timestampSchema,
    evidence_date: dateSchema.meta({ description: 'The day that the evidence is about' }),
    test_procedures: z.array(z.string()),
    version_of: uuidSchema.nullable().meta({ description: 'The file that this one replaces' }),
    revision: z.int().min(1).meta({ description: '1 for a first upload, one more for each revision' }),
    status: z.enum(['accepted', 'quarantined']).meta({
      description: '`quarantined`: the file contains malware. It is isolated and attached to no test procedure',
    }),
    scan: z.enum(['not_configured', 'clean', 'infected', 'limits_exceeded']).meta({
      description:
        'The result of the malware scanner. `limits_exceeded`: the file is too large or too deeply nested to scan, so the result is unknown',
    }),
    malware: z.string().nullable().meta({ description: 'The scanner’s name of the malware' }),
    retention_until: dateSchema.meta({ description: 'The file is stored at least until the end of this day (UTC)' }),
    jws: jwsSchema,
  })
  .meta({ id: 'EvidenceReceipt' })
export type Receipt = z.infer<typeof receiptSchema>

/** Signed like a receipt. */
export const attachmentReceiptSchema = z
  .object({
    id: uuidSchema.meta({ description: 'The evidence file' }),
    reference: referenceSchema,
    sha256: sha256Schema,
    test_procedures: z.array(z.string()).meta({ description: 'The test procedures in the request' }),
    note: z.string().nullable().meta({ description: 'The note in the request; `attachments` has the stored notes' }),
    attached_at: timestampSchema.meta({ description: 'When the request was processed' }),
    attachments: z
      .array(z.object({ test_procedure_id: uuidSchema, note: z.string().nullable(), attached_at: timestampSchema }))
      .meta({
        description:
          'The stored attachments to these test procedures. If the file was attached before, they have the earlier note and time',
      }),
    jws: jwsSchema,
  })
  .meta({ id: 'EvidenceAttachmentReceipt' })
export type AttachmentReceipt = z.infer<typeof attachmentReceiptSchema>

export const testProceduresSchema = z
  .array(
    resourceAddressSchema.refine((address) => address.isWellFormed(), { message: 'must not hold lone surrogates' }),
  )
  .max(50)
  .transform((addresses) => [...new Set(addresses)])
