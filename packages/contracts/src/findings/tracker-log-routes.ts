import { z } from 'zod'
import { dateSchema, line } from '../common.ts'
import { anyKey, anyOf, fieldsOf, pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import { addressed, read, write } from './route-parts.ts'
import {
  createLogEntryBodySchema,
  logCheckpointSchema,
  logEntrySchema,
  logEntryStubSchema,
  logKinds,
  logVerificationSchema,
  maxLogWalk,
} from './tracker-log.ts'

/** The columns of the CSV, in order. */
const logColumns = [
  'position',
  'seq',
  'finding_id',
  'action_plan_id',
  'recommendation_id',
  'kind',
  'body',
  'changes',
  'evidence_refs',
  'corrects_seq',
  'occurred_at',
  'recorded_at',
  'actor',
  'on_behalf_of',
  'prev_hash',
  'hash',
] as const

/** A count in a query: digits, up to the largest integer that the log can count. */
const countAfter = z
  .string()
  .refine((digits) => /^(0|[1-9][0-9]{0,14})$/.test(digits), { message: 'must be a number' })
  .transform(Number)
  .optional()
  .meta({ type: 'integer', minimum: 0 })
export const listLogOfFinding = defineRoute({
  id: 'findings.list-log-of-finding',
  csvColumns: logColumns,
  method: 'GET',
  path: '/api/v1/findings/:id/log',
  upstream: 'findings',
  access: read,
  tag: 'Remediation tracker log',
  summary: 'Read the tracker log of a finding, oldest first',
  params: addressed,
  query: z.strictObject({
    ...pageQuery,
    kind: anyOf(logKinds).optional(),
    after_seq: countAfter,
    fields: fieldsOf(logEntrySchema),
  }),
  answers: { 200: { description: 'Entries', schema: z.array(logEntrySchema) } },
  problems: ['not_found'],
})

export const createLogEntry = defineRoute({
  id: 'findings.create-log-entry',
  method: 'POST',
  path: '/api/v1/findings/:id/log',
  upstream: 'findings',
  access: write,
  tag: 'Remediation tracker log',
  summary: 'Add a note, an escalation, a correction, or a link to evidence',
  description:
    'Entries are never changed or taken away: what is wrong is corrected by another entry. A caller without `read:findings` is answered with the finding and the number of the entry alone.',
  params: addressed,
  body: createLogEntryBodySchema,
  answers: {
    201: {
      description: 'The entry',
      schema: z.union([logEntrySchema, logEntryStubSchema]),
      withoutHeaders: ['ETag'],
    },
  },
  problems: ['not_found', 'invalid_content', 'log_contradicted'],
})

export const verifyLogOfFinding = defineRoute({
  id: 'findings.verify-log-of-finding',
  method: 'GET',
  path: '/api/v1/findings/:id/log/verify',
  upstream: 'findings',
  access: read,
  tag: 'Remediation tracker log',
  summary: 'Check the hash chain of the tracker log of a finding',
  params: addressed,
  answers: { 200: { description: 'What the check found', schema: logVerificationSchema } },
  problems: ['not_found'],
})

export const listLog = defineRoute({
  id: 'findings.list-log',
  csvColumns: logColumns,
  method: 'GET',
  path: '/api/v1/remediation-log',
  upstream: 'findings',
  access: read,
  tag: 'Remediation tracker log',
  summary: 'Read the tracker logs of all findings, oldest first',
  description: `With \`kind\` or \`actor\`, a page looks through ${maxLogWalk} entries at most: where they leave less than a page it is short, or empty, and goes on with \`rel="next"\` of \`Link\`. Where there is none, that was all. NDJSON and CSV hold the whole list.`,
  query: z.strictObject({
    ...pageQuery,
    count: pageQuery.count.meta({
      description: `\`true\` adds X-Total-Count to a page of JSON. With \`kind\` or \`actor\`, where more than ${maxLogWalk} entries are behind \`since_seq\`, it is refused with 400`,
    }),
    kind: anyOf(logKinds).optional(),
    actor: anyKey(line(1, 255), 'Id of who wrote the entry'),
    since_seq: countAfter.meta({ description: 'Entries behind this position', type: 'integer', minimum: 0 }),
    fields: fieldsOf(logEntrySchema),
  }),
  answers: { 200: { description: 'Entries', schema: z.array(logEntrySchema) } },
})

export const getLogCheckpoint = defineRoute({
  id: 'findings.get-log-checkpoint',
  method: 'GET',
  path: '/api/v1/remediation-log/checkpoint',
  upstream: 'findings',
  access: read,
  tag: 'Remediation tracker log',
  summary: 'Read a signed end of the log',
  description:
    'Keep it: an export that was rewritten later contradicts it. Without `day` it is the end of the log as it is now; with one, that of the last day, up to the given one, on which something was logged and which is over (UTC): signed once, and the same from then on. 404 where nothing was logged by then.',
  query: z.strictObject({ day: dateSchema.optional() }),
  answers: { 200: { description: 'The checkpoint', schema: logCheckpointSchema } },
  problems: ['not_found', 'log_contradicted'],
})

export const logCheckpointKeys = defineRoute({
  id: 'findings.log-checkpoint-keys',
  method: 'GET',
  path: '/api/v1/remediation-log/keys',
  upstream: 'findings',
  access: { kind: 'public' },
  tag: 'Remediation tracker log',
  summary: 'Public keys that verify checkpoints (RFC 7517)',
  answers: {
    200: { description: 'JSON Web Key Set', schema: z.object({ keys: z.array(z.record(z.string(), z.unknown())) }) },
  },
})
