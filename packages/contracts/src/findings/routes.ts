import { z } from 'zod'
import { externalIdSchema, resourceAddressSchema } from '../common.ts'
import { anyOf, pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'
import { createFindingBodySchema, findingSchema, findingStatuses, findingStubSchema, severities } from './finding.ts'

/** What a list of findings can be sorted by; a leading `-` turns the order round. The id breaks ties. */
export const findingSorts = [
  '-created_at',
  'created_at',
  '-updated_at',
  'updated_at',
  'target_date',
  '-severity',
] as const

export const listFindings = defineRoute({
  id: 'findings.list',
  method: 'GET',
  path: '/api/v1/findings',
  upstream: 'findings',
  access: { kind: 'scope', scope: 'read:findings' },
  tag: 'Findings',
  summary: 'List findings',
  query: z.strictObject({
    ...pageQuery,
    status: anyOf(findingStatuses).optional(),
    severity: anyOf(severities).optional(),
    external_id: externalIdSchema.optional(),
    updated_since: z.iso.datetime({ offset: true }).optional(),
    sort: z.enum(findingSorts).default('-created_at'),
  }),
  answers: { 200: { description: 'Findings', schema: z.array(findingSchema) } },
})

export const getFinding = defineRoute({
  id: 'findings.get',
  method: 'GET',
  path: '/api/v1/findings/:id',
  upstream: 'findings',
  access: { kind: 'scope', scope: 'read:findings' },
  tag: 'Findings',
  summary: 'Read a finding',
  params: z.strictObject({ id: resourceAddressSchema }),
  answers: { 200: { description: 'The finding', schema: findingSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const createFinding = defineRoute({
  id: 'findings.create',
  method: 'POST',
  path: '/api/v1/findings',
  upstream: 'findings',
  access: { kind: 'scope', scope: 'write:findings' },
  tag: 'Findings',
  summary: 'Document a finding',
  description: 'A caller without `read:findings` is answered with id, reference, version and status alone.',
  body: createFindingBodySchema,
  answers: { 201: { description: 'The finding', schema: z.union([findingSchema, findingStubSchema]) } },
  problems: ['conflict', 'invalid_content'],
})

export const findingsRoutes = [listFindings, getFinding, createFinding] as const
