import { z } from 'zod'
import { createdBySchema, line, momentSchema, nonBlankText, timestampSchema, uuidSchema } from '../common.ts'
import { conditional, memberIs, requiredMembers } from '../conditional-schema.ts'
import { evidenceRefSchema, sentEvidenceRefSchema } from './finding.ts'

export const logKinds = [
  'created',
  'note',
  'status_change',
  'due_date_change',
  'owner_change',
  'progress',
  'evidence_linked',
  'field_change',
  'validation',
  'escalation',
  'correction',
  'system',
] as const
export type LogKind = (typeof logKinds)[number]

/** Entries that one page or count of a filtered log reads at most. */
export const maxLogWalk = 500_000

const hashSchema = z.string().regex(/^[0-9a-f]{64}$/)

/**
 * `hash` is the SHA-256 (hex) of the canonical JSON (RFC 8785) of the other members except `position`; `prev_hash` is
 * the hash of the finding's previous entry.
 */
export const logEntrySchema = z
  .object({
    position: z.int().min(1).meta({ description: 'Numbers all entries of the tenant in commit order' }),
    seq: z.int().min(1).meta({ description: 'Numbers the entries of the finding' }),
    finding_id: uuidSchema,
    action_plan_id: uuidSchema.nullable(),
    recommendation_id: uuidSchema.nullable(),
    kind: z.enum(logKinds),
    body: z.string().nullable(),
    changes: z.array(z.object({ field: z.string(), from: z.unknown(), to: z.unknown() })),
    evidence_refs: z.array(evidenceRefSchema),
    corrects_seq: z.int().min(1).nullable(),
    occurred_at: timestampSchema,
    recorded_at: timestampSchema,
    actor: createdBySchema,
    on_behalf_of: z.string().nullable(),
    prev_hash: hashSchema.nullable(),
    hash: hashSchema,
  })
  .meta({ id: 'LogEntry' })
export type LogEntry = z.infer<typeof logEntrySchema>

export const logEntryStubSchema = z.object({ finding_id: uuidSchema, seq: z.int() }).meta({ id: 'LogEntryStub' })

export const createLogEntryBodySchema = z
  .strictObject({
    kind: z.enum(['note', 'escalation', 'correction', 'evidence_linked']).default('note'),
    body: nonBlankText(20_000),
    occurred_at: momentSchema.optional().meta({ description: 'When it happened. Default and maximum: now' }),
    corrects_seq: z
      .int()
      .min(1)
      .max(2_147_483_647)
      .optional()
      .meta({ description: 'The entry that a correction corrects' }),
    on_behalf_of: line(1, 255).optional(),
    evidence_refs: z.array(sentEvidenceRefSchema).max(50).default([]),
  })
  .refine((entry) => (entry.kind === 'correction') === (entry.corrects_seq !== undefined), {
    path: ['corrects_seq'],
    message: 'is required for a correction and allowed only there',
  })
  .refine((entry) => entry.kind !== 'evidence_linked' || entry.evidence_refs.length > 0, {
    path: ['evidence_refs'],
    message: 'must name the linked evidence',
  })
  .meta({
    id: 'CreateLogEntry',
    ...conditional({ ...memberIs('kind', 'correction'), required: ['kind'] }, requiredMembers('corrects_seq'), {
      not: requiredMembers('corrects_seq'),
      ...conditional(
        { ...memberIs('kind', 'evidence_linked'), required: ['kind'] },
        { properties: { evidence_refs: { minItems: 1 } }, required: ['evidence_refs'] },
      ),
    }),
  })
export type CreateLogEntry = z.output<typeof createLogEntryBodySchema>

export const logCheckpointSchema = z
  .object({
    position: z.int().min(0).meta({ description: '0 if nothing has been logged yet' }),
    root: hashSchema.meta({
      description: 'SHA-256 (hex) of the previous root, at first 64 zeros, and the `hash` of the entry',
    }),
    day: z.iso.date().meta({ description: 'The day (UTC) of the last entry that it covers' }),
    jws: z.string().meta({ description: 'Compact JWS (RFC 7515, EdDSA) over tenant, position, root, day and time' }),
  })
  .meta({ id: 'LogCheckpoint' })
export type LogCheckpoint = z.infer<typeof logCheckpointSchema>

export const logVerificationSchema = z
  .object({
    finding_id: uuidSchema,
    is_intact: z.boolean(),
    entries: z.int().min(0),
    last_hash: hashSchema.nullable(),
    fault: z
      .object({ seq: z.int(), problem: z.enum(['content', 'link', 'order']) })
      .nullable()
      .meta({ description: 'The first invalid entry, and its invalid part' }),
  })
  .meta({ id: 'LogVerification' })
export type LogVerification = z.infer<typeof logVerificationSchema>
