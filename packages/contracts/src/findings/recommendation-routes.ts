import { z } from 'zod'
import { addressFilter, anyOf, fieldsOf, pageQuery, updatedSince } from '../page.ts'
import { defineRoute } from '../route.ts'
import {
  createRecommendationBodySchema,
  recommendationSchema,
  recommendationStatuses,
  recommendationStubSchema,
  updateRecommendationBodySchema,
} from './recommendation.ts'
import { addressed, briefAnswer, externalIdFilter, patchTypes, read, search, write } from './route-parts.ts'

export const recommendationSorts = ['-created_at', 'created_at', '-updated_at', 'updated_at'] as const

const recommendationFilters = {
  ...pageQuery,
  status: anyOf(recommendationStatuses).optional(),
  external_id: externalIdFilter,
  updated_since: updatedSince,
  q: search,
  sort: z.enum(recommendationSorts).default('-created_at'),
  fields: fieldsOf(recommendationSchema),
}

export const listRecommendations = defineRoute({
  id: 'findings.list-recommendations',
  method: 'GET',
  path: '/api/v1/recommendations',
  upstream: 'findings',
  access: read,
  tag: 'Recommendations',
  summary: 'List recommendations',
  description: 'The recommendations of all findings. Without `sort`, the newest come first.',
  query: z.strictObject({
    ...recommendationFilters,
    finding_id: addressFilter('Recommendations of one of the findings'),
  }),
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
  description: 'Takes the same filters as the list of all recommendations.',
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
  description: 'Includes the response of management. The `ETag` is needed to change the recommendation.',
  params: addressed,
  query: z.strictObject({ fields: fieldsOf(recommendationSchema) }),
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
  description: `A finding has at most 1000. ${briefAnswer}`,
  params: addressed,
  body: createRecommendationBodySchema,
  answers: {
    201: { description: 'The recommendation', schema: z.union([recommendationSchema, recommendationStubSchema]) },
  },
  problems: ['not_found', 'conflict', 'invalid_content', 'log_contradicted'],
})

export const updateRecommendation = defineRoute({
  id: 'findings.update-recommendation',
  method: 'PATCH',
  path: '/api/v1/recommendations/:id',
  upstream: 'findings',
  access: write,
  tag: 'Recommendations',
  summary: 'Change a recommendation, or respond to it',
  description: `JSON Merge Patch (RFC 7396) with If-Match. ${briefAnswer}`,
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
    'log_contradicted',
  ],
})
