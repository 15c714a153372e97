import { z } from 'zod'
import { dateSchema } from '../common.ts'
import { addressFilter, anyOf, fieldsOf, pageQuery, updatedSince } from '../page.ts'
import { defineRoute } from '../route.ts'
import {
  actionPlanSchema,
  actionPlanStatuses,
  actionPlanStubSchema,
  changeActionPlanStatusBodySchema,
  createActionPlanBodySchema,
  extendActionPlanBodySchema,
  maxExtensions,
  updateActionPlanBodySchema,
} from './action-plan.ts'
import {
  addressed,
  briefAnswer,
  externalIdFilter,
  ownerFilter,
  patchTypes,
  read,
  search,
  write,
  yesOrNo,
} from './route-parts.ts'

const planColumns = [
  'id',
  'reference',
  'external_id',
  'finding_id',
  'recommendation_ids',
  'title',
  'description',
  'owner',
  'status',
  'percent_complete',
  'due_date',
  'original_due_date',
  'extension_count',
  'extensions',
  'is_overdue',
  'days_overdue',
  'days_late_vs_original',
  'completed_date',
  'verified_date',
  'verified_by',
  'priority',
  'estimated_cost',
  'external_url',
  'custom',
  'created_by',
  'created_at',
  'updated_at',
  'version',
] as const

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
  external_id: externalIdFilter,
  updated_since: updatedSince,
  q: search,
  sort: z.enum(actionPlanSorts).default('-created_at'),
  fields: fieldsOf(actionPlanSchema),
}

export const listActionPlans = defineRoute({
  id: 'findings.list-action-plans',
  csvColumns: planColumns,
  method: 'GET',
  path: '/api/v1/action-plans',
  upstream: 'findings',
  access: read,
  tag: 'Action plans',
  summary: 'List action plans',
  description:
    'The action plans of all findings; `overdue=true` lists the late ones. Without `sort`, the newest come first.',
  query: z.strictObject({ ...actionPlanFilters, finding_id: addressFilter('Action plans of one of the findings') }),
  answers: { 200: { description: 'Action plans', schema: z.array(actionPlanSchema) } },
})

export const listActionPlansOfFinding = defineRoute({
  id: 'findings.list-action-plans-of-finding',
  csvColumns: planColumns,
  method: 'GET',
  path: '/api/v1/findings/:id/action-plans',
  upstream: 'findings',
  access: read,
  tag: 'Action plans',
  summary: 'List the action plans of a finding',
  description: 'Takes the same filters as the list of all action plans.',
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
  description: 'Includes the due date and its extensions. The `ETag` is needed to change the action plan.',
  params: addressed,
  query: z.strictObject({ fields: fieldsOf(actionPlanSchema) }),
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
  description: briefAnswer,
  params: addressed,
  body: createActionPlanBodySchema,
  answers: { 201: { description: 'The action plan', schema: z.union([actionPlanSchema, actionPlanStubSchema]) } },
  problems: ['not_found', 'conflict', 'invalid_content', 'log_contradicted'],
})

export const updateActionPlan = defineRoute({
  id: 'findings.update-action-plan',
  method: 'PATCH',
  path: '/api/v1/action-plans/:id',
  upstream: 'findings',
  access: write,
  tag: 'Action plans',
  summary: 'Change an action plan',
  description: `JSON Merge Patch (RFC 7396) with If-Match, also of nested objects. A different due date requires a reason. It can change ${maxExtensions} times at most. ${briefAnswer}`,
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
    'log_contradicted',
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
  description: `A transition that is impossible or incomplete returns 409 with the \`allowed\` transitions and the missing values in \`errors\`. If-Match is optional. ${briefAnswer}`,
  params: addressed,
  body: changeActionPlanStatusBodySchema,
  answers: { 200: { description: 'The action plan', schema: z.union([actionPlanSchema, actionPlanStubSchema]) } },
  problems: ['not_found', 'invalid_transition', 'precondition_failed', 'invalid_content', 'log_contradicted'],
})

export const extendActionPlan = defineRoute({
  id: 'findings.extend-action-plan',
  method: 'POST',
  path: '/api/v1/action-plans/:id/extensions',
  upstream: 'findings',
  access: write,
  tag: 'Action plans',
  summary: 'Agree on a later due date',
  description: `A due date can change ${maxExtensions} times at most. ${briefAnswer}`,
  params: addressed,
  body: extendActionPlanBodySchema,
  answers: {
    201: {
      description: 'The action plan',
      schema: z.union([actionPlanSchema, actionPlanStubSchema]),
      withoutHeaders: ['Location'],
    },
  },
  problems: ['not_found', 'conflict', 'precondition_failed', 'invalid_content', 'log_contradicted'],
})
