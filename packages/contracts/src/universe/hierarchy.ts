import { z } from 'zod'
import {
  createdBySchema,
  dateSchema,
  externalIdSchema,
  line,
  personRefSchema,
  sentPersonRefSchema,
  timestampSchema,
  uuidSchema,
  withNulls,
} from '../common.ts'

export const hierarchyKinds = ['legal_entity', 'management', 'process', 'geography', 'technology', 'custom'] as const
export const nodeStatuses = ['active', 'inactive'] as const

export const maxNodeDepth = 32
export const maxTreeNodes = 5000

const keyRule = 'must be 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or digit'
export const hierarchyKeySchema = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, keyRule)
  .meta({ examples: ['legal'] })

/** A key that looks like an id is treated as an id. */
export const hierarchyAddressSchema = z
  .union([uuidSchema, hierarchyKeySchema])
  .meta({ description: 'Its key or its id', examples: ['legal'] })

export const hierarchySchema = z
  .object({
    id: uuidSchema,
    key: hierarchyKeySchema,
    name: z.string(),
    kind: z.enum(hierarchyKinds),
    is_primary: z.boolean().meta({ description: 'Whether it is the primary one of the tenant' }),
    version: z.int().meta({ description: 'Increases by one with each push that changes a node. Use it in `as_of`' }),
    node_count: z.int().meta({ description: 'Active nodes' }),
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
  })
  .meta({ id: 'Hierarchy' })
export type Hierarchy = z.infer<typeof hierarchySchema>

const nodeFields = {
  id: uuidSchema,
  node_key: z.string().meta({ description: "The source's own key" }),
  parent_id: uuidSchema.nullable(),
  name: z.string(),
  level_name: z
    .string()
    .nullable()
    .meta({ examples: ['Division'] }),
  depth: z.int().meta({ description: '1 for a root' }),
  head: personRefSchema.nullable(),
  status: z.enum(nodeStatuses),
  valid_from: dateSchema.nullable(),
  valid_to: dateSchema.nullable(),
  entity_ids: z.array(uuidSchema),
  since_version: z.int().meta({ description: 'The version of the hierarchy that changed the node last' }),
}

export const nodeSchema = z.object(nodeFields).meta({ id: 'HierarchyNode' })
export type HierarchyNode = z.infer<typeof nodeSchema>

export const lookedUpNodeSchema = nodeSchema
  .extend({ hierarchy: hierarchyKeySchema.meta({ description: 'Key of the hierarchy that it belongs to' }) })
  .meta({ id: 'LookedUpHierarchyNode' })
export type LookedUpNode = z.infer<typeof lookedUpNodeSchema>

export interface HierarchyTreeNode extends HierarchyNode {
  readonly children: HierarchyTreeNode[]
}

export const treeNodeSchema: z.ZodType<HierarchyTreeNode> = z
  .object({ ...nodeFields, children: z.array(z.lazy(() => treeNodeSchema)) })
  .meta({ id: 'HierarchyTreeNode' })

export const nodeChangeFields = [
  'name',
  'level_name',
  'parent_id',
  'head',
  'status',
  'valid_from',
  'valid_to',
  'entity_ids',
] as const

export const nodeChangeSchema = z
  .object({
    change: z.enum(['added', 'changed']).meta({ description: 'Nodes are never deleted; they become inactive' }),
    fields: z.array(z.enum(nodeChangeFields)).meta({ description: 'The members that differ; empty for a new node' }),
    before: nodeSchema.nullable(),
    after: nodeSchema,
  })
  .meta({ id: 'HierarchyNodeChange' })
export type HierarchyNodeChange = z.infer<typeof nodeChangeSchema>

/** A leading `-` reverses the order; the id breaks ties. */
export const nodeSorts = ['tree', 'name', '-name', 'node_key', '-node_key'] as const

export const nodeAddressSchema = z
  .union([uuidSchema, z.string().regex(/^key:[^\p{Cc}\p{Cs}]{1,255}$/u)])
  .meta({ description: 'An id, or `key:` and a node_key' })

/** A version number, or a day for its last version (UTC). */
export const asOfSchema = z
  .union([z.string().regex(/^(0|[1-9][0-9]{0,8})$/), dateSchema], {
    error: 'must be a version, or a calendar date such as 2026-11-21',
  })
  .meta({ description: 'A version, or a day: the last version of that day (UTC) or before' })

export const pushedNodeSchema = z
  .strictObject({
    node_key: externalIdSchema,
    parent_key: externalIdSchema.optional(),
    name: line(1, 255),
    level_name: line(1, 255).optional(),
    head: personRefSchema.optional(),
    status: z.enum(nodeStatuses).default('active'),
    valid_from: dateSchema.optional(),
    valid_to: dateSchema.optional(),
    entities: z
      .array(externalIdSchema)
      .max(50)
      .refine((keys) => new Set(keys).size === keys.length, { message: 'must not repeat an entity' })
      .meta({ uniqueItems: true })
      .default([])
      .meta({ description: 'External ids of the auditable entities that belong to the node' }),
  })
  .meta({ id: 'PushedNode' })
export type PushedNode = z.infer<typeof pushedNodeSchema>

export const maxPushedNodes = 20_000

export const pushedHierarchyFields = {
  name: line(1, 255),
  kind: z.enum(hierarchyKinds),
  is_primary: z.boolean().optional().meta({
    description: 'True makes this the primary hierarchy, as the first one of a tenant is; false changes nothing.',
  }),
  mode: z
    .enum(['full', 'partial'])
    .meta({ description: '`full`: nodes that are not in the push become inactive. `partial`: they stay.' }),
  nodes: z.array(pushedNodeSchema).min(1).max(maxPushedNodes),
}
export const pushedHierarchySchema = z.strictObject(pushedHierarchyFields).meta({ id: 'PushedHierarchy' })
export type PushedHierarchy = z.infer<typeof pushedHierarchySchema>

export const sentNodeSchema = z
  .strictObject(withNulls({ ...pushedNodeSchema.shape, head: sentPersonRefSchema.optional() }))
  .meta({ id: 'SentNode' })

export const sentHierarchySchema = pushedHierarchySchema
  .extend({
    nodes: z.array(sentNodeSchema).min(1).max(maxPushedNodes),
  })
  .meta({ id: 'SentHierarchy' })
