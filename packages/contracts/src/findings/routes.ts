import { z } from 'zod'
import { dateSchema, externalIdSchema, line, resourceAddressSchema, uuidSchema } from '../common.ts'
import { anyOf, pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import {
  actionPlanSchema,
  actionPlanStatuses,
  actionPlanStubSchema,
  changeActionPlanStatusBodySchema,
  createActionPlanBodySchema,
  extendActionPlanBodySchema,
  updateActionPlanBodySchema,
} from './action-plan.ts'
import {
  changeFindingStatusBodySchema,
  createFindingBodySchema,
  findingSchema,
  findingSources,
  findingStatuses,
  findingStubSchema,
  findingTypes,
  findingsSummarySchema,
  severities,
  summaryGroups,
  transitionsSchema,
  updateFindingBodySchema,
} from './finding.ts'
import {
  createRecommendationBodySchema,
  recommendationSchema,
  recommendationStatuses,
  recommendationStubSchema,
  updateRecommendationBodySchema,
} from './recommendation.ts'
import {
  createLogEntryBodySchema,
  logCheckpointSchema,
  logEntrySchema,
  logEntryStubSchema,
  logKinds,
  logVerificationSchema,
} from './tracker-log.ts'

const read = { kind: 'scope', scope: 'read:findings' } as const
const write = { kind: 'scope', scope: 'write:findings' } as const
const addressed = z.strictObject({ id: resourceAddressSchema })
const stubbed = 'A caller without `read:findings` is answered with id, reference, version and status alone.'
const patchTypes = ['application/merge-patch+json', 'application/json'] as const

const since = z.iso.datetime({ offset: true }).optional()
const yesOrNo = z.enum(['true', 'false']).optional()
const search = line(2, 200).optional().meta({ description: 'Words that stand together in a text, in any case' })
const ownerFilter = line(1, 254).optional().meta({ description: 'Id, e-mail address or name of a person' })
/** A count in a query: digits, up to the largest integer that the log can count. */
const countAfter = z
  .string()
  .refine((digits) => /^(0|[1-9][0-9]{0,14})$/.test(digits), { message: 'must be a number' })
  .transform(Number)
  .optional()
  .meta({ type: 'integer', minimum: 0 })

/** What a list of findings can be sorted by; a leading `-` turns the order round. The id breaks ties. */
export const findingSorts = [
  '-created_at',
  'created_at',
  '-updated_at',
  'updated_at',
  'target_date',
  '-target_date',
  '-severity',
  'severity',
] as const

const findingFilters = {
  status: anyOf(findingStatuses).optional(),
  severity: anyOf(severities).optional(),
  type: anyOf(findingTypes).optional(),
  source: anyOf(findingSources).optional(),
  entity_id: uuidSchema.optional().meta({ description: 'Findings that concern the entity' }),
  owner: ownerFilter,
  overdue: yesOrNo,
  repeat: yesOrNo,
  identified_from: dateSchema.optional(),
  identified_to: dateSchema.optional(),
  target_after: dateSchema.optional(),
  target_before: dateSchema.optional(),
  external_id: externalIdSchema.optional(),
  updated_since: since,
  q: search,
}

export const listFindings = defineRoute({
  id: 'findings.list',
  method: 'GET',
  path: '/api/v1/findings',
  upstream: 'findings',
  access: read,
  tag: 'Findings',
  summary: 'List findings',
  query: z.strictObject({
    ...pageQuery,
    ...findingFilters,
    sort: z.enum(findingSorts).default('-created_at'),
  }),
  answers: { 200: { description: 'Findings', schema: z.array(findingSchema) } },
})

export const getFinding = defineRoute({
  id: 'findings.get',
  method: 'GET',
  path: '/api/v1/findings/:id',
  upstream: 'findings',
  access: read,
  tag: 'Findings',
  summary: 'Read a finding',
  params: addressed,
  answers: { 200: { description: 'The finding', schema: findingSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const summarizeFindings = defineRoute({
  id: 'findings.summarize',
  method: 'GET',
  path: '/api/v1/findings/summary',
  upstream: 'findings',
  access: read,
  tag: 'Findings',
  summary: 'Count findings by severity, status, entity, owner or age',
  description:
    'The filters of the list apply. The largest groups come first, at most 1000. A finding counts once for each of its entities.',
  query: z.strictObject({ ...findingFilters, group_by: z.enum(summaryGroups).default('severity') }),
  answers: { 200: { description: 'The groups', schema: findingsSummarySchema } },
})

export const createFinding = defineRoute({
  id: 'findings.create',
  method: 'POST',
  path: '/api/v1/findings',
  upstream: 'findings',
  access: write,
  tag: 'Findings',
  summary: 'Document a finding',
  description: stubbed,
  body: createFindingBodySchema,
  answers: { 201: { description: 'The finding', schema: z.union([findingSchema, findingStubSchema]) } },
  problems: ['conflict', 'invalid_content'],
})

export const updateFinding = defineRoute({
  id: 'findings.update',
  method: 'PATCH',
  path: '/api/v1/findings/:id',
  upstream: 'findings',
  access: write,
  tag: 'Findings',
  summary: 'Change a finding',
  description: `JSON Merge Patch (RFC 7396) with If-Match. Each change becomes an entry of the tracker log. ${stubbed}`,
  params: addressed,
  body: updateFindingBodySchema,
  bodyMediaTypes: patchTypes,
  answers: { 200: { description: 'The finding', schema: z.union([findingSchema, findingStubSchema]) } },
  problems: ['not_found', 'conflict', 'precondition_failed', 'precondition_required', 'invalid_content'],
})

export const changeFindingStatus = defineRoute({
  id: 'findings.change-status',
  method: 'POST',
  path: '/api/v1/findings/:id/status',
  upstream: 'findings',
  access: write,
  tag: 'Findings',
  summary: 'Move the status of a finding',
  description: `\`GET /findings/{id}/transitions\` says where it can go. If-Match is looked at where it is given. ${stubbed}`,
  params: addressed,
  body: changeFindingStatusBodySchema,
  answers: { 200: { description: 'The finding', schema: z.union([findingSchema, findingStubSchema]) } },
  problems: ['not_found', 'invalid_transition', 'precondition_failed', 'invalid_content'],
})

export const findingTransitions = defineRoute({
  id: 'findings.transitions',
  method: 'GET',
  path: '/api/v1/findings/:id/transitions',
  upstream: 'findings',
  access: read,
  tag: 'Findings',
  summary: 'Where the status of a finding can go, and what that needs',
  params: addressed,
  answers: { 200: { description: 'The moves', schema: transitionsSchema } },
  problems: ['not_found'],
})

export const recommendationSorts = ['-created_at', 'created_at', '-updated_at', 'updated_at'] as const

const recommendationFilters = {
  ...pageQuery,
  status: anyOf(recommendationStatuses).optional(),
  external_id: externalIdSchema.optional(),
  updated_since: since,
  q: search,
  sort: z.enum(recommendationSorts).default('-created_at'),
}

export const listRecommendations = defineRoute({
  id: 'findings.list-recommendations',
  method: 'GET',
  path: '/api/v1/recommendations',
  upstream: 'findings',
  access: read,
  tag: 'Recommendations',
  summary: 'List recommendations',
  query: z.strictObject({ ...recommendationFilters, finding_id: uuidSchema.optional() }),
  answers: { 200: { description: 'Recommendations', schema: z.array(recommendationSchema) } },
})

export const listRecommendationsOfFinding = defineRoute({
  id: 'findings.list-recommendations-of-finding',
  method: 'GET',
  path: '/api/v1/findings/:id/recommendations',
  upstream: 'findings',
  access: read,
  tag: 'Recommendations',
  summary: 'List the recommendations of a finding',
  params: addressed,
  query: z.strictObject(recommendationFilters),
  answers: { 200: { description: 'Recommendations', schema: z.array(recommendationSchema) } },
  problems: ['not_found'],
})

export const getRecommendation = defineRoute({
  id: 'findings.get-recommendation',
  method: 'GET',
  path: '/api/v1/recommendations/:id',
  upstream: 'findings',
  access: read,
  tag: 'Recommendations',
  summary: 'Read a recommendation',
  params: addressed,
  answers: {
    200: { description: 'The recommendation', schema: recommendationSchema },
    304: { description: 'Not modified' },
  },
  problems: ['not_found'],
})

export const createRecommendation = defineRoute({
  id: 'findings.create-recommendation',
  method: 'POST',
  path: '/api/v1/findings/:id/recommendations',
  upstream: 'findings',
  access: write,
  tag: 'Recommendations',
  summary: 'Submit a recommendation',
  description: stubbed,
  params: addressed,
  body: createRecommendationBodySchema,
  answers: {
    201: { description: 'The recommendation', schema: z.union([recommendationSchema, recommendationStubSchema]) },
  },
  problems: ['not_found', 'conflict', 'invalid_content'],
})

export const updateRecommendation = defineRoute({
  id: 'findings.update-recommendation',
  method: 'PATCH',
  path: '/api/v1/recommendations/:id',
  upstream: 'findings',
  access: write,
  tag: 'Recommendations',
  summary: 'Change a recommendation, or respond to it',
  description: `JSON Merge Patch (RFC 7396) with If-Match. ${stubbed}`,
  params: addressed,
  body: updateRecommendationBodySchema,
  bodyMediaTypes: patchTypes,
  answers: {
    200: { description: 'The recommendation', schema: z.union([recommendationSchema, recommendationStubSchema]) },
  },
  problems: [
    'not_found',
    'conflict',
    'invalid_transition',
    'precondition_failed',
    'precondition_required',
    'invalid_content',
  ],
})

export const actionPlanSorts = [
  '-created_at',
  'created_at',
  '-updated_at',
  'updated_at',
  'due_date',
  '-due_date',
] as const

const actionPlanFilters = {
  ...pageQuery,
  status: anyOf(actionPlanStatuses).optional(),
  owner: ownerFilter,
  overdue: yesOrNo,
  due_after: dateSchema.optional(),
  due_before: dateSchema.optional(),
  external_id: externalIdSchema.optional(),
  updated_since: since,
  q: search,
  sort: z.enum(actionPlanSorts).default('-created_at'),
}

export const listActionPlans = defineRoute({
  id: 'findings.list-action-plans',
  method: 'GET',
  path: '/api/v1/action-plans',
  upstream: 'findings',
  access: read,
  tag: 'Action plans',
  summary: 'List action plans',
  query: z.strictObject({ ...actionPlanFilters, finding_id: uuidSchema.optional() }),
  answers: { 200: { description: 'Action plans', schema: z.array(actionPlanSchema) } },
})

export const listActionPlansOfFinding = defineRoute({
  id: 'findings.list-action-plans-of-finding',
  method: 'GET',
  path: '/api/v1/findings/:id/action-plans',
  upstream: 'findings',
  access: read,
  tag: 'Action plans',
  summary: 'List the action plans of a finding',
  params: addressed,
  query: z.strictObject(actionPlanFilters),
  answers: { 200: { description: 'Action plans', schema: z.array(actionPlanSchema) } },
  problems: ['not_found'],
})

export const getActionPlan = defineRoute({
  id: 'findings.get-action-plan',
  method: 'GET',
  path: '/api/v1/action-plans/:id',
  upstream: 'findings',
  access: read,
  tag: 'Action plans',
  summary: 'Read an action plan',
  params: addressed,
  answers: { 200: { description: 'The action plan', schema: actionPlanSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const createActionPlan = defineRoute({
  id: 'findings.create-action-plan',
  method: 'POST',
  path: '/api/v1/findings/:id/action-plans',
  upstream: 'findings',
  access: write,
  tag: 'Action plans',
  summary: 'Propose an action plan',
  description: stubbed,
  params: addressed,
  body: createActionPlanBodySchema,
  answers: { 201: { description: 'The action plan', schema: z.union([actionPlanSchema, actionPlanStubSchema]) } },
  problems: ['not_found', 'conflict', 'invalid_content'],
})

export const updateActionPlan = defineRoute({
  id: 'findings.update-action-plan',
  method: 'PATCH',
  path: '/api/v1/action-plans/:id',
  upstream: 'findings',
  access: write,
  tag: 'Action plans',
  summary: 'Change an action plan',
  description: `JSON Merge Patch (RFC 7396) with If-Match. Another due date needs its reason. ${stubbed}`,
  params: addressed,
  body: updateActionPlanBodySchema,
  bodyMediaTypes: patchTypes,
  answers: { 200: { description: 'The action plan', schema: z.union([actionPlanSchema, actionPlanStubSchema]) } },
  problems: [
    'not_found',
    'conflict',
    'invalid_transition',
    'precondition_failed',
    'precondition_required',
    'invalid_content',
  ],
})

export const changeActionPlanStatus = defineRoute({
  id: 'findings.change-action-plan-status',
  method: 'POST',
  path: '/api/v1/action-plans/:id/status',
  upstream: 'findings',
  access: write,
  tag: 'Action plans',
  summary: 'Update the status of an action plan',
  description: `If-Match is looked at where it is given. ${stubbed}`,
  params: addressed,
  body: changeActionPlanStatusBodySchema,
  answers: { 200: { description: 'The action plan', schema: z.union([actionPlanSchema, actionPlanStubSchema]) } },
  problems: ['not_found', 'invalid_transition', 'precondition_failed', 'invalid_content'],
})

export const extendActionPlan = defineRoute({
  id: 'findings.extend-action-plan',
  method: 'POST',
  path: '/api/v1/action-plans/:id/extensions',
  upstream: 'findings',
  access: write,
  tag: 'Action plans',
  summary: 'Agree on a later due date',
  description: stubbed,
  params: addressed,
  body: extendActionPlanBodySchema,
  answers: { 201: { description: 'The action plan', schema: z.union([actionPlanSchema, actionPlanStubSchema]) } },
  problems: ['not_found', 'conflict', 'precondition_failed', 'invalid_content'],
})

export const listLogOfFinding = defineRoute({
  id: 'findings.list-log-of-finding',
  method: 'GET',
  path: '/api/v1/findings/:id/log',
  upstream: 'findings',
  access: read,
  tag: 'Remediation tracker log',
  summary: 'Read the tracker log of a finding, oldest first',
  params: addressed,
  query: z.strictObject({ ...pageQuery, kind: anyOf(logKinds).optional(), after_seq: countAfter }),
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
  summary: 'Add a note, an escalation or a correction',
  description:
    'Entries are never changed or taken away: what is wrong is corrected by another entry. A caller without `read:findings` is answered with the finding and the number of the entry alone.',
  params: addressed,
  body: createLogEntryBodySchema,
  answers: { 201: { description: 'The entry', schema: z.union([logEntrySchema, logEntryStubSchema]) } },
  problems: ['not_found', 'invalid_content'],
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
  method: 'GET',
  path: '/api/v1/remediation-log',
  upstream: 'findings',
  access: read,
  tag: 'Remediation tracker log',
  summary: 'Read the tracker logs of all findings, oldest first',
  query: z.strictObject({
    ...pageQuery,
    kind: anyOf(logKinds).optional(),
    actor: line(1, 255).optional().meta({ description: 'Id of who wrote the entry' }),
    since_seq: countAfter.meta({ description: 'Entries behind this position', type: 'integer', minimum: 0 }),
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
    'Keep it: an export that was rewritten later contradicts it. Without `day` it is the end of the log as it is now; with one, the last checkpoint of that day or before.',
  query: z.strictObject({ day: dateSchema.optional() }),
  answers: { 200: { description: 'The checkpoint', schema: logCheckpointSchema } },
  problems: ['not_found'],
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

export const findingsRoutes = [
  listFindings,
  getFinding,
  summarizeFindings,
  createFinding,
  updateFinding,
  changeFindingStatus,
  findingTransitions,
  listRecommendations,
  listRecommendationsOfFinding,
  getRecommendation,
  createRecommendation,
  updateRecommendation,
  listActionPlans,
  listActionPlansOfFinding,
  getActionPlan,
  createActionPlan,
  updateActionPlan,
  changeActionPlanStatus,
  extendActionPlan,
  listLogOfFinding,
  createLogEntry,
  verifyLogOfFinding,
  listLog,
  getLogCheckpoint,
  logCheckpointKeys,
] as const
