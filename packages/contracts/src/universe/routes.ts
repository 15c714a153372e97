import { z } from 'zod'
import {
  createdBySchema,
  customSchema,
  dateSchema,
  externalIdSchema,
  line,
  personRefSchema,
  resourceAddressSchema,
  text,
  timestampSchema,
  uuidSchema,
} from '../common.ts'
import { anyOf, pageQuery } from '../page.ts'
import { defineRoute } from '../route.ts'

export const entityTypes = [
  'legal_entity',
  'business_unit',
  'department',
  'process',
  'product',
  'it_system',
  'location',
  'vendor',
  'project',
  'regulation',
  'other',
] as const
export const entityStatuses = ['draft', 'active', 'archived'] as const
export const riskRatings = ['critical', 'high', 'medium', 'low'] as const
export const auditOpinions = ['satisfactory', 'needs_improvement', 'unsatisfactory'] as const

const riskSchema = z
  .strictObject({ rating: z.enum(riskRatings), score: z.number().min(0).max(100) })
  .meta({ id: 'Risk' })

/** What a source says of an auditable entity. */
export const entityFields = {
  name: line(1, 255),
  description: text(0, 20_000).optional(),
  type: z.enum(entityTypes),
  status: z.enum(entityStatuses).default('active'),
  owner: personRefSchema.optional(),
  audit_lead: personRefSchema.optional(),
  executive: personRefSchema.optional(),
  inherent_risk: riskSchema.optional(),
  residual_risk: riskSchema.optional(),
  risk_assessed_at: dateSchema.optional(),
  audit_frequency_months: z.int().min(1).max(120).optional(),
  last_audit_date: dateSchema.optional(),
  last_audit_opinion: z.enum(auditOpinions).optional(),
  regulatory_next_due: dateSchema.optional(),
  custom: customSchema.optional(),
}

export const entitySchema = z
  .object({
    id: uuidSchema,
    reference: z.string().meta({ examples: ['AE-0001'] }),
    external_id: z.string().nullable(),
    name: z.string(),
    description: z.string().nullable(),
    type: z.enum(entityTypes),
    status: z.enum(entityStatuses),
    parent_id: uuidSchema.nullable(),
    owner: personRefSchema.nullable(),
    audit_lead: personRefSchema.nullable(),
    executive: personRefSchema.nullable(),
    inherent_risk: riskSchema.nullable(),
    residual_risk: riskSchema.nullable(),
    risk_assessed_at: dateSchema.nullable(),
    stale: z.boolean().meta({ description: 'The risk was last assessed more than 12 months ago, or never' }),
    audit_frequency_months: z.int().nullable(),
    last_audit_date: dateSchema.nullable(),
    last_audit_opinion: z.enum(auditOpinions).nullable(),
    regulatory_next_due: dateSchema.nullable(),
    next_audit_due: dateSchema
      .nullable()
      .meta({ description: 'Last audit plus frequency, or the regulatory date if that is earlier' }),
    custom: customSchema,
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'AuditableEntity' })
export type Entity = z.infer<typeof entitySchema>

const base = { upstream: 'universe', tag: 'Audit universe', access: { kind: 'scope', scope: 'read:universe' } } as const

export const listEntities = defineRoute({
  ...base,
  id: 'universe.list-entities',
  method: 'GET',
  path: '/api/v1/entities',
  summary: 'List auditable entities',
  query: z.strictObject({
    ...pageQuery,
    type: anyOf(entityTypes).optional(),
    status: anyOf(entityStatuses).optional(),
    external_id: externalIdSchema.optional(),
    updated_since: z.iso.datetime({ offset: true }).optional(),
  }),
  answers: { 200: { description: 'Entities, by reference', schema: z.array(entitySchema) } },
})

export const getEntity = defineRoute({
  ...base,
  id: 'universe.get-entity',
  method: 'GET',
  path: '/api/v1/entities/:id',
  summary: 'Read an auditable entity',
  params: z.strictObject({ id: resourceAddressSchema }),
  answers: { 200: { description: 'The entity', schema: entitySchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const universeRoutes = [listEntities, getEntity] as const
