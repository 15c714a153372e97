import { z } from 'zod'
import { emailSchema } from '../email.ts'
import { dateSchema, externalIdSchema, line, unnumberedAddressSchema } from '../common.ts'
import { addressFilter, keyFilter, anyOf, textFilter, fieldsOf, pageQuery, updatedSince } from '../page.ts'
import { defineRoute } from '../route.ts'
import { personSchema } from './person.ts'
import { addressed, base, search } from './route-parts.ts'
import {
  testConclusions,
  testMethods,
  testProcedureSchema,
  testProcedureStatuses,
  testTypes,
} from './test-procedure.ts'

export const testProcedureSorts = [
  'reference',
  '-reference',
  'title',
  '-title',
  'updated_at',
  '-updated_at',
  'due_date',
  '-due_date',
] as const

export const listTestProcedures = defineRoute({
  ...base,
  id: 'universe.list-test-procedures',
  method: 'GET',
  path: '/api/v1/test-procedures',
  summary: 'List test procedures',
  description: 'Filters can be combined. Without `sort`, they are in the order of their references.',
  query: z.strictObject({
    ...pageQuery,
    status: anyOf(testProcedureStatuses).optional(),
    method: anyOf(testMethods).optional(),
    test_type: anyOf(testTypes).optional(),
    conclusion: anyOf(testConclusions).optional(),
    entity_id: addressFilter('Procedures that test one of the entities'),
    engagement_ref: textFilter(line(1, 255), 'Reference of an engagement'),
    control_ref: textFilter(line(1, 255), 'Reference of a control'),
    due_before: dateSchema.optional(),
    due_after: dateSchema.optional(),
    external_id: keyFilter(externalIdSchema, 'The one with this external id'),
    updated_since: updatedSince,
    q: search,
    sort: z.enum(testProcedureSorts).default('reference'),
    fields: fieldsOf(testProcedureSchema),
  }),
  answers: { 200: { description: 'Test procedures', schema: z.array(testProcedureSchema) } },
})

export const getTestProcedure = defineRoute({
  ...base,
  id: 'universe.get-test-procedure',
  method: 'GET',
  path: '/api/v1/test-procedures/:id',
  summary: 'Read a test procedure',
  description: 'Includes the entity, the control and the engagement that it belongs to.',
  params: addressed,
  query: z.strictObject({ fields: fieldsOf(testProcedureSchema) }),
  answers: {
    200: { description: 'The test procedure', schema: testProcedureSchema },
    304: { description: 'Not modified' },
  },
  problems: ['not_found'],
})

export const personSorts = ['name', '-name', 'updated_at', '-updated_at'] as const

export const listPeople = defineRoute({
  ...base,
  id: 'universe.list-people',
  method: 'GET',
  path: '/api/v1/people',
  summary: 'List people',
  description: 'People from connectors, pushes and SCIM, by name. They need not be able to sign in.',
  query: z.strictObject({
    ...pageQuery,
    email: textFilter(emailSchema, 'E-mail address of a person, in any case'),
    active: z.enum(['true', 'false']).optional(),
    external_id: keyFilter(externalIdSchema, 'The one with this external id'),
    updated_since: updatedSince,
    q: search,
    sort: z.enum(personSorts).default('name'),
    fields: fieldsOf(personSchema),
  }),
  answers: { 200: { description: 'People', schema: z.array(personSchema) } },
})

export const getPerson = defineRoute({
  ...base,
  id: 'universe.get-person',
  method: 'GET',
  path: '/api/v1/people/:id',
  summary: 'Read a person',
  description: 'Includes the e-mail address, and whether the source lists the person as active.',
  params: z.strictObject({ id: unnumberedAddressSchema }),
  query: z.strictObject({ fields: fieldsOf(personSchema) }),
  answers: { 200: { description: 'The person', schema: personSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})
