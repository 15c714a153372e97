import { z } from 'zod'
import { dateSchema, line } from '../common.ts'
import { keyFilter, anyOf, fieldsOf, pageQuery } from '../page.ts'
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
  description: 'Changes of the finding, and what people added. `after_seq` continues after an entry.',
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
    'Entries cannot be changed or deleted; a new entry corrects a wrong one. A caller without `read:findings` gets only the finding and the number of the entry.',
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
  summary: 'Verify the hash chain of a finding’s tracker log',
  description: 'Computes the hashes of the entries again and compares them with the stored ones.',
  params: addressed,
  answers: { 200: { description: 'The result of the verification', schema: logVerificationSchema } },
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
  description: `With \`kind\` or \`actor\`, a page searches at most ${maxLogWalk} entries, so it can be short or empty. Follow \`rel="next"\` of \`Link\` until it is absent. NDJSON and CSV contain the whole list.`,
  query: z.strictObject({
    ...pageQuery,
    count: pageQuery.count.meta({
      description: `\`true\` adds X-Total-Count to a JSON page. With \`kind\` or \`actor\` and more than ${maxLogWalk} entries after \`since\`, it is rejected with 400`,
    }),
    kind: anyOf(logKinds).optional(),
    actor: keyFilter(line(1, 255), 'Id of the author of the entry'),
    since: countAfter.meta({ description: 'Entries after this `position`', type: 'integer', minimum: 0 }),
    since_seq: countAfter.meta({
      description: 'The earlier name of `since`; send only one of them',
      type: 'integer',
      minimum: 0,
    }),
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
  summary: 'Read a signed checkpoint of the log',
  description:
    'Keep it: it contradicts a log that is rewritten later. Without `day`, it is the current end of the log. With `day`, it is the end of the last complete day (UTC) with entries up to that day, which is signed once and never changes. Returns 404 if there were no entries by then.',
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
  description:
    '`postern verify-log` checks the signatures of checkpoints with these keys, without access to the system.',
  answers: {
    200: { description: 'JSON Web Key Set', schema: z.object({ keys: z.array(z.record(z.string(), z.unknown())) }) },
  },
})
