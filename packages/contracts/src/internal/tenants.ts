import { z } from 'zod'
import { line, timestampSchema, uuidSchema } from '../common.ts'
import { pushedEntitySchema } from '../sync/routes.ts'
import { hierarchyKeySchema, pushedHierarchyFields } from '../universe/hierarchy.ts'
import { pushedPersonSchema } from '../universe/person.ts'
import { pushedTestProcedureSchema } from '../universe/test-procedure.ts'

export const tenantSchema = z.object({
  id: uuidSchema,
  slug: z.string(),
  name: z.string(),
  status: z.enum(['active', 'suspended']),
  key_limit: z.int(),
  tenant_limit: z.int(),
  created_at: timestampSchema,
  version: z.int(),
})
export type Tenant = z.infer<typeof tenantSchema>

export const tenantSlugSchema = z.string().regex(/^[a-z][a-z0-9-]{1,62}$/)

/** `POST /internal/v1/tenants` → 201. */
export const createTenantBodySchema = z.strictObject({ slug: tenantSlugSchema, name: line(1, 200) })

const requestsPerMinute = z.int().min(1).max(1_000_000_000)

/** `POST /internal/v1/tenants/{id}`. Absent members do not change. */
export const updateTenantBodySchema = z
  .strictObject({
    name: line(1, 200).optional(),
    key_limit: requestsPerMinute.optional(),
    tenant_limit: requestsPerMinute.optional(),
  })
  .refine((body) => Object.keys(body).length > 0, {
    message: 'name what is to change: name, key_limit or tenant_limit',
  })

export const tenantEventSchema = z.object({
  id: uuidSchema,
  type: z.enum(['created', 'suspended', 'resumed', 'changed']),
  at: timestampSchema,
  /** Null in entries of a release that kept no trail. */
  operator: z.string().nullable(),
  name: z.string(),
  key_limit: z.int(),
  tenant_limit: z.int(),
})
export type TenantEvent = z.infer<typeof tenantEventSchema>

/** `POST /internal/v1/entities` (sync → universe). */
export const applyEntitiesBodySchema = z.strictObject({
  run_id: uuidSchema,
  entities: z.array(pushedEntitySchema).min(1).max(5000),
})
export const applyEntitiesAnswerSchema = z.object({ created: z.int(), updated: z.int(), unchanged: z.int() })
export type ApplyEntitiesAnswer = z.infer<typeof applyEntitiesAnswerSchema>

const applyPeople = z.array(pushedPersonSchema).min(1).max(5000)

/** `POST /internal/v1/org-structures` (sync → universe). */
export const applyHierarchyBodySchema = z.strictObject({
  run_id: uuidSchema,
  key: hierarchyKeySchema,
  ...pushedHierarchyFields,
  people: applyPeople.optional(),
})
export type ApplyHierarchyBody = z.infer<typeof applyHierarchyBodySchema>

/** `POST /internal/v1/test-procedures` (sync → universe). */
export const applyTestProceduresBodySchema = z.strictObject({
  run_id: uuidSchema,
  test_procedures: z.array(pushedTestProcedureSchema).min(1).max(5000),
})

/** `POST /internal/v1/people` (sync → universe). */
export const applyPeopleBodySchema = z.strictObject({
  run_id: uuidSchema,
  people: applyPeople,
})

/** Only hierarchies have `deactivated`. */
export const applyAnswerSchema = applyEntitiesAnswerSchema.extend({ deactivated: z.int().optional() })
export type ApplyAnswer = z.infer<typeof applyAnswerSchema>
