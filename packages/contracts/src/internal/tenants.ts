import { z } from 'zod'
import { line, timestampSchema, uuidSchema } from '../common.ts'
import { pushedEntitySchema } from '../sync/routes.ts'

/** Platform operations on tenants, for the operator's command alone. */
export const tenantSchema = z.object({
  id: uuidSchema,
  slug: z.string(),
  name: z.string(),
  status: z.enum(['active', 'suspended']),
  created_at: timestampSchema,
  version: z.int(),
})
export type Tenant = z.infer<typeof tenantSchema>

export const tenantSlugSchema = z.string().regex(/^[a-z][a-z0-9-]{1,62}$/)

/** `POST /internal/v1/tenants` → 201. */
export const createTenantBodySchema = z.strictObject({ slug: tenantSlugSchema, name: line(1, 200) })

/** `POST /internal/v1/entities` (sync → universe): all or nothing. */
export const applyEntitiesBodySchema = z.strictObject({
  run_id: uuidSchema,
  entities: z.array(pushedEntitySchema).min(1).max(5000),
})
export const applyEntitiesAnswerSchema = z.object({ created: z.int(), updated: z.int(), unchanged: z.int() })
export type ApplyEntitiesAnswer = z.infer<typeof applyEntitiesAnswerSchema>
