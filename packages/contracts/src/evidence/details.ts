import { z } from 'zod'
import { dateSchema, line, momentSchema, personRefSchema, text } from '../common.ts'
import { sha256Schema, testProceduresSchema } from './receipt.ts'

export const collectionMethods = ['manual', 'api_export', 'screenshot', 'query', 'report', 'log'] as const
export const classifications = ['public', 'internal', 'confidential', 'restricted'] as const

/** 5 GiB. */
export const maxEvidenceBytes = 5 * 1024 * 1024 * 1024

export const maxFilesAtOnce = 10

export const maxAttachments = 1_000

// Excludes controls, path separators, line breaks, and characters that are invisible or change the text direction.
const fileNameCharacters =
  /^[^\p{Cc}\p{Cs}/\\\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e007f}]+$/u

/** Windows devices, with any extension. */
const deviceName = /^(?:con|prn|aux|nul|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3]) *(?:\.|$)/i

/** A bare file name in NFC: no path, device, control or invisible characters. */
export const fileNameSchema = z
  .string()
  .transform((name) => name.normalize('NFC'))
  .pipe(z.string().min(1).max(255).regex(fileNameCharacters, 'must be a bare file name without control characters'))
  .refine((name) => !/^[. ]+$/.test(name) && !deviceName.test(name), { message: 'must be a file name' })
  .meta({ minLength: 1, maxLength: 255, examples: ['access-review-2026-q3.csv'] })

export const briefDetails = {
  evidence_date: dateSchema.optional().meta({
    description: 'The day that the evidence is about, at most tomorrow (UTC). Default: the day of receipt (UTC)',
  }),
  period_start: dateSchema.optional().meta({ description: 'First day of the period that the evidence covers' }),
  period_end: dateSchema.optional().meta({ description: 'Last day of that period; not before the first' }),
  source_system: line(1, 255).optional().meta({ description: 'The system that the evidence was collected from' }),
  collection_method: z.enum(collectionMethods).optional(),
  collected_at: momentSchema
    .optional()
    .meta({ description: 'At most now, with five minutes of tolerance for clock differences' }),
  classification: z.enum(classifications).default('confidential'),
  description: text(1, 5_000).optional(),
}

export const evidenceDetailsSchema = z
  .strictObject({
    ...briefDetails,
    collected_by: personRefSchema.optional(),
    query_text: text(1, 10_000)
      .optional()
      .meta({ description: 'The query or report parameters that produced the evidence' }),
    test_procedures: testProceduresSchema.optional(),
    sha256: z
      .array(sha256Schema)
      .max(maxFilesAtOnce)
      .optional()
      .meta({ description: 'The SHA-256 of each file, in order. If one differs, no file is stored' }),
  })
  .refine(isPeriodOrdered, { message: 'must not be before period_start', path: ['period_end'] })
  .meta({ id: 'EvidenceDetails' })
export type EvidenceDetails = z.output<typeof evidenceDetailsSchema>
export type EvidenceDetailsInput = z.input<typeof evidenceDetailsSchema>

export function isPeriodOrdered({
  period_start: start,
  period_end: end,
}: {
  readonly period_start?: string | undefined
  readonly period_end?: string | undefined
}): boolean {
  return start === undefined || end === undefined || start <= end
}
