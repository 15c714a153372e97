import { z } from 'zod'
import { resourceAddressSchema, uuidSchema } from '../common.ts'
import { entityStatuses, entityTypes } from '../universe/routes.ts'
import { hierarchyKeySchema, nodeAddressSchema } from '../universe/hierarchy.ts'

export const maxSubtreeEntities = 100_000

/** `POST /internal/v1/entities/subtree` (findings → universe). */
export const subtreeBodySchema = z.union([
  z.strictObject({ subtree_of: resourceAddressSchema }),
  z.strictObject({ hierarchy: hierarchyKeySchema, subtree_of: nodeAddressSchema.optional() }),
])
export type SubtreeBody = z.output<typeof subtreeBodySchema>

export const subtreeAnswerSchema = z.strictObject({ entity_ids: z.array(uuidSchema).nullable() })
export type SubtreeAnswer = z.infer<typeof subtreeAnswerSchema>

/** `POST /internal/v1/entities/names` (findings → universe). */
export const entityNamesBodySchema = z.strictObject({ ids: z.array(uuidSchema).min(1).max(1000) })

export const entityNamesAnswerSchema = z.strictObject({
  entities: z.array(
    z.strictObject({
      id: uuidSchema,
      name: z.string(),
      reference: z.string(),
      type: z.enum(entityTypes),
      status: z.enum(entityStatuses),
    }),
  ),
})
export type EntityNamesAnswer = z.infer<typeof entityNamesAnswerSchema>
