import { z } from 'zod'
import { dateSchema, resourceAddressSchema } from '../common.ts'
import {
  addressFilter,
  anyOf,
  textFilter,
  expandedPages,
  fieldsOf,
  mostExpanded,
  pageQuery,
  updatedSince,
} from '../page.ts'
import { defineRoute } from '../route.ts'
import { hierarchyKeySchema, nodeAddressSchema } from '../universe/hierarchy.ts'
import { expandedFindingSchema, expansions } from './expanded-finding.ts'
import {
  changeFindingStatusBodySchema,
  createFindingBodySchema,
  documentedFindingSchema,
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

const findingColumns = [
  'id',
  'reference',
  'external_id',
  'title',
  'status',
  'severity',
  'type',
  'owner',
  'entity_ids',
  'identified_date',
  'target_date',
  'is_overdue',
  'age_days',
  'closed_date',
  'reopened_count',
  'is_repeat',
  'repeat_of_id',
  'source',
  'engagement_ref',
  'test_procedure_id',
  'cause_category',
  'deficiency_class',
  'coso_component',
  'condition',
  'criteria',
  'cause',
  'consequence',
  'corrective_action',
  'management_response',
  'accepted_until',
  'is_acceptance_expired',
  'accepted_by',
  'validated_by',
  'custom',
  'created_by',
  'created_at',
  'updated_at',
  'version',
] as const

/** A leading `-` reverses the order; the id breaks ties. */
export const findingSorts = [
  '-created_at',
  'created_at',
  '-updated_at',
  'updated_at',
  'target_date',
  '-target_date',
  '-severity',
  'severity',
  '-severity,target_date',
  'severity,-target_date',
] as const

const findingFilters = {
  status: anyOf(findingStatuses).optional(),
  severity: anyOf(severities).optional(),
  ref: textFilter(z.string().regex(/^F-[0-9-]{1,40}$/), 'The finding with this reference, such as `F-2026-0042`'),
  type: anyOf(findingTypes).optional(),
  source: anyOf(findingSources).optional(),
  entity_id: addressFilter('Findings that concern one of the entities'),
  subtree_of: z.union([resourceAddressSchema, nodeAddressSchema]).optional().meta({
    description:
      'Findings about the entity or one below it. With `hierarchy`, a node of it: findings about entities of the node or one below.',
  }),
  hierarchy: hierarchyKeySchema
    .optional()
    .meta({ description: 'Findings about an entity that belongs to an active node of the hierarchy' }),
  owner: ownerFilter,
  overdue: yesOrNo,
  repeat: yesOrNo,
  identified_from: dateSchema.optional(),
  identified_to: dateSchema.optional(),
  target_after: dateSchema.optional(),
  target_before: dateSchema.optional(),
  external_id: externalIdFilter,
  updated_since: updatedSince,
  q: search,
}

export const listFindings = defineRoute({
  id: 'findings.list',
  csvColumns: findingColumns,
  method: 'GET',
  path: '/api/v1/findings',
  upstream: 'findings',
  access: read,
  tag: 'Findings',
  summary: 'List findings',
  description: '`expand` adds related resources to each finding. Without `sort`, the newest come first.',
  query: z.strictObject({
    ...pageQuery,
    ...findingFilters,
    sort: z.enum(findingSorts).default('-created_at'),
    expand: anyOf(expansions)
      .optional()
      .meta({
        description: `Adds related resources to each finding: any of recommendations, action_plans (the first ${mostExpanded.listed} of each), log (the last ${mostExpanded.listed} entries), entities; comma-separated. ${expandedPages}`,
      }),
    fields: fieldsOf(findingSchema),
  }),
  answers: { 200: { description: 'Findings', schema: z.array(expandedFindingSchema) } },
})

export const getFinding = defineRoute({
  id: 'findings.get',
  method: 'GET',
  path: '/api/v1/findings/:id',
  upstream: 'findings',
  access: read,
  tag: 'Findings',
  summary: 'Read a finding',
  description: '`expand` adds related resources in the same response. The `ETag` is needed to change the finding.',
  params: addressed,
  query: z.strictObject({
    expand: anyOf(expansions).optional().meta({
      description:
        'Adds related resources: any of recommendations, action_plans (the first 200), log (the last 200 entries), entities; comma-separated',
    }),
    fields: fieldsOf(findingSchema),
  }),
  answers: { 200: { description: 'The finding', schema: expandedFindingSchema }, 304: { description: 'Not modified' } },
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
  description: `A finding can repeat one that is closed, or whose risk is accepted. ${briefAnswer}`,
  body: createFindingBodySchema,
  answers: { 201: { description: 'The finding', schema: z.union([documentedFindingSchema, findingStubSchema]) } },
  problems: ['conflict', 'invalid_content', 'log_contradicted'],
})

export const updateFinding = defineRoute({
  id: 'findings.update',
  method: 'PATCH',
  path: '/api/v1/findings/:id',
  upstream: 'findings',
  access: write,
  tag: 'Findings',
  summary: 'Change a finding',
  description: `JSON Merge Patch (RFC 7396) with If-Match, also of nested objects. Each change becomes an entry of the tracker log. ${briefAnswer}`,
  params: addressed,
  body: updateFindingBodySchema,
  bodyMediaTypes: patchTypes,
  answers: { 200: { description: 'The finding', schema: z.union([findingSchema, findingStubSchema]) } },
  problems: [
    'not_found',
    'conflict',
    'precondition_failed',
    'precondition_required',
    'invalid_content',
    'log_contradicted',
  ],
})

export const changeFindingStatus = defineRoute({
  id: 'findings.change-status',
  method: 'POST',
  path: '/api/v1/findings/:id/status',
  upstream: 'findings',
  access: write,
  tag: 'Findings',
  summary: 'Change the status of a finding',
  description: `\`GET /findings/{id}/transitions\` lists the possible transitions. A transition that is impossible or incomplete returns 409 with the \`allowed\` transitions and the missing values in \`errors\`. If a finding with an approved plan becomes open, it moves to \`in_remediation\` at once. If-Match is optional. ${briefAnswer}`,
  params: addressed,
  body: changeFindingStatusBodySchema,
  answers: { 200: { description: 'The finding', schema: z.union([findingSchema, findingStubSchema]) } },
  problems: ['not_found', 'invalid_transition', 'precondition_failed', 'invalid_content', 'log_contradicted'],
})

export const findingTransitions = defineRoute({
  id: 'findings.transitions',
  method: 'GET',
  path: '/api/v1/findings/:id/transitions',
  upstream: 'findings',
  access: read,
  tag: 'Findings',
  summary: 'List the possible transitions of a finding and their requirements',
  description: 'Each transition names the values that the finding still lacks.',
  params: addressed,
  answers: { 200: { description: 'The transitions', schema: transitionsSchema } },
  problems: ['not_found'],
})
