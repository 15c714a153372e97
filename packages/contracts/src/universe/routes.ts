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
import {
  addressFilter,
  idFilter,
  keyFilter,
  ownerFilterText,
  anyOf,
  textFilter,
  expandedPages,
  fieldsOf,
  csvQuery,
  formQuery,
  pageQuery,
  updatedSince,
} from '../page.ts'
import { defineRoute } from '../route.ts'
import { findingCountsSchema } from './finding-counts.ts'
import {
  asOfSchema,
  hierarchyAddressSchema,
  hierarchyKeySchema,
  hierarchySchema,
  lookedUpNodeSchema,
  maxNodeDepth,
  maxTreeNodes,
  nodeAddressSchema,
  nodeChangeSchema,
  nodeSchema,
  nodeSorts,
  nodeStatuses,
  treeNodeSchema,
} from './hierarchy.ts'
import { getPerson, getTestProcedure, listPeople, listTestProcedures } from './procedure-and-people-routes.ts'
import { addressed, base, search } from './route-parts.ts'

export * from './finding-counts.ts'
export * from './hierarchy.ts'
export * from './person.ts'
export * from './procedure-and-people-routes.ts'
export * from './test-procedure.ts'

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

const entitySourceSchema = z
  .object({
    connector_id: uuidSchema.meta({
      description:
        'If several connectors deliver it: the first one, until its source no longer has the entity or it is retired',
    }),
    source_key: z.string().meta({ description: 'Its key in the source' }),
    first_seen_at: timestampSchema.meta({ description: 'When the connector first delivered it' }),
    last_seen_at: timestampSchema.meta({
      description:
        'The last complete read of the source that had it. A change of this time makes no new version of the entity',
    }),
    missing_since: timestampSchema
      .nullable()
      .meta({ description: 'Since when the source lacks it; null if the source has it' }),
  })
  .meta({ id: 'EntitySource' })

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
    source: entitySourceSchema.nullable().meta({
      description:
        'The connector that delivers the entity; null before its run has ended, without a connector, and after it was retired. Retiring makes no new version of the entity',
    }),
    created_by: createdBySchema,
    created_at: timestampSchema,
    updated_at: timestampSchema,
    version: z.int(),
  })
  .meta({ id: 'AuditableEntity' })
export type Entity = z.infer<typeof entitySchema>

export const expandedEntitySchema = entitySchema
  .extend({
    ancestors: z
      .array(z.object({ id: uuidSchema, reference: z.string(), name: z.string() }))
      .optional()
      .meta({ description: 'With `expand=ancestors`: from the root down' }),
    nodes: z
      .array(z.object({ hierarchy: hierarchyKeySchema, id: uuidSchema, node_key: z.string(), name: z.string() }))
      .optional()
      .meta({
        description:
          'With `expand=nodes`: the nodes of the entity in the hierarchies, the first 200; in a list the first 20',
      }),
    open_findings: findingCountsSchema.optional().meta({
      description:
        'With `expand=finding_counts` and `read:findings`: findings that are open, in remediation or in validation',
    }),
    archived_with_open_findings: z.boolean().optional().meta({
      description: 'With `open_findings`: whether the entity is archived and has some',
    }),
  })
  .meta({ id: 'ExpandedAuditableEntity' })
export type ExpandedEntity = z.infer<typeof expandedEntitySchema>

export const entityExpansions = ['ancestors', 'nodes', 'finding_counts'] as const
export type EntityExpansion = (typeof entityExpansions)[number]

const expandEntity = (more: string) =>
  anyOf(entityExpansions)
    .optional()
    .meta({
      description: `Adds related resources: any of ancestors, nodes, finding_counts (\`open_findings\`; needs \`read:findings\`); comma-separated${more}`,
    })

function levels(max: number, description: string) {
  return z
    .string()
    .refine((digits) => /^[1-9][0-9]?$/.test(digits) && Number(digits) <= max, {
      message: `must be a number from 1 to ${max}`,
    })
    .transform(Number)
    .meta({ type: 'integer', minimum: 1, maximum: max, description })
}

/** A leading `-` reverses the order; the reference breaks ties. */
export const entitySorts = [
  'reference',
  '-reference',
  'name',
  '-name',
  'updated_at',
  '-updated_at',
  'next_audit_due',
  '-next_audit_due',
  'tree',
] as const

export const listEntities = defineRoute({
  ...base,
  id: 'universe.list-entities',
  method: 'GET',
  path: '/api/v1/entities',
  summary: 'List auditable entities',
  description: 'What can be audited: companies, processes, systems and others. Filters can be combined.',
  query: z.strictObject({
    ...pageQuery,
    type: anyOf(entityTypes).optional(),
    status: anyOf(entityStatuses).optional(),
    parent_id: z
      .union([z.literal('none'), addressFilter('')])
      .optional()
      .meta({
        description:
          'Children of one of the entities: ids, `ref:` or `ext:` addresses, repeated or comma-separated. `none`: entities without a parent',
      }),
    subtree_of: z.union([resourceAddressSchema, nodeAddressSchema]).optional().meta({
      description:
        'The entity and everything below it. With `hierarchy`, a node of it: entities that belong to the node or one below.',
    }),
    hierarchy: hierarchyKeySchema
      .optional()
      .meta({ description: 'Entities that belong to an active node of the hierarchy' }),
    owner: textFilter(line(1, 255), ownerFilterText),
    risk_rating: anyOf(riskRatings)
      .optional()
      .meta({ description: 'The residual rating, or the inherent one if there is no residual rating' }),
    next_audit_due_before: dateSchema.optional(),
    external_id: keyFilter(externalIdSchema, 'The one with this external id'),
    connector_id: idFilter('Entities that one of the connectors delivers (`source`) or created (`created_by`)'),
    missing: z
      .enum(['true', 'false'])
      .optional()
      .meta({ description: 'Whether its source lacks it (`source.missing_since`)' }),
    updated_since: updatedSince,
    q: search,
    sort: z
      .enum(entitySorts)
      .optional()
      .meta({ description: 'Default: `reference`; with `subtree_of` an entity `tree`, parents before their children' }),
    expand: expandEntity(`. ${expandedPages}`),
    fields: fieldsOf(entitySchema),
  }),
  answers: { 200: { description: 'Entities, by reference', schema: z.array(expandedEntitySchema) } },
})

export const getEntity = defineRoute({
  ...base,
  id: 'universe.get-entity',
  method: 'GET',
  path: '/api/v1/entities/:id',
  summary: 'Read an auditable entity',
  description: '`expand` adds ancestors, hierarchy nodes or counts of findings in the same response.',
  params: addressed,
  query: z.strictObject({ expand: expandEntity(''), fields: fieldsOf(entitySchema) }),
  answers: { 200: { description: 'The entity', schema: expandedEntitySchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const listChildrenOfEntity = defineRoute({
  ...base,
  id: 'universe.list-children-of-entity',
  method: 'GET',
  path: '/api/v1/entities/:id/children',
  summary: 'List the descendants of an auditable entity, parents before their children',
  description: '`depth` is the number of levels below the entity; the default is its children.',
  params: addressed,
  query: z.strictObject({
    ...pageQuery,
    depth: levels(12, 'Levels below the entity; 1: its children').default(1),
    type: anyOf(entityTypes).optional(),
    status: anyOf(entityStatuses).optional(),
    fields: fieldsOf(entitySchema),
  }),
  answers: { 200: { description: 'Entities', schema: z.array(entitySchema) } },
  problems: ['not_found'],
})

export const listAncestorsOfEntity = defineRoute({
  ...base,
  id: 'universe.list-ancestors-of-entity',
  method: 'GET',
  path: '/api/v1/entities/:id/ancestors',
  summary: 'List the ancestors of an auditable entity, from the root down',
  description: 'The last one is the parent of the entity. An entity without a parent has none.',
  params: addressed,
  query: z.strictObject({ fields: fieldsOf(entitySchema) }),
  answers: { 200: { description: 'At most eleven entities', schema: z.array(entitySchema) } },
  problems: ['not_found'],
})

export const listHierarchies = defineRoute({
  ...base,
  id: 'universe.list-hierarchies',
  method: 'GET',
  path: '/api/v1/hierarchies',
  summary: 'List organizational hierarchies',
  description: 'A tenant can have several, such as one of legal entities and one of departments.',
  query: z.strictObject({ ...pageQuery, fields: fieldsOf(hierarchySchema) }),
  answers: { 200: { description: 'Hierarchies, by key', schema: z.array(hierarchySchema) } },
})

const keyed = z.strictObject({ key: hierarchyAddressSchema })

export const getHierarchy = defineRoute({
  ...base,
  id: 'universe.get-hierarchy',
  method: 'GET',
  path: '/api/v1/hierarchies/:key',
  summary: 'Read an organizational hierarchy',
  description: 'Its `version` increases with each push that changes it.',
  params: keyed,
  query: z.strictObject({ fields: fieldsOf(hierarchySchema) }),
  answers: { 200: { description: 'The hierarchy', schema: hierarchySchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const listNodes = defineRoute({
  ...base,
  id: 'universe.list-nodes',
  method: 'GET',
  path: '/api/v1/hierarchies/:key/nodes',
  summary: 'List the nodes of a hierarchy',
  description: 'With a version in `as_of`, all pages are of the same tree, whatever is pushed meanwhile.',
  params: keyed,
  query: z.strictObject({
    ...pageQuery,
    subtree_of: nodeAddressSchema.optional(),
    depth: levels(maxNodeDepth, 'Levels from the top; 1: only the top').optional(),
    status: anyOf(nodeStatuses).optional(),
    as_of: asOfSchema.optional(),
    q: search,
    sort: z.enum(nodeSorts).default('tree').meta({ description: '`tree`: parents before their children' }),
    fields: fieldsOf(nodeSchema),
  }),
  answers: { 200: { description: 'Nodes', schema: z.array(nodeSchema) } },
  problems: ['not_found'],
})

export const getNode = defineRoute({
  ...base,
  id: 'universe.get-node',
  method: 'GET',
  path: '/api/v1/hierarchy-nodes/:id',
  summary: 'Read a node of any hierarchy by its id',
  description: 'For an id without its hierarchy, as in a finding or an entity.',
  params: z.strictObject({ id: uuidSchema }),
  query: z.strictObject({ fields: fieldsOf(lookedUpNodeSchema) }),
  answers: { 200: { description: 'The node', schema: lookedUpNodeSchema }, 304: { description: 'Not modified' } },
  problems: ['not_found'],
})

export const getTree = defineRoute({
  ...base,
  id: 'universe.get-tree',
  method: 'GET',
  path: '/api/v1/hierarchies/:key/tree',
  summary: 'Read a hierarchy as nested nodes',
  description: `At most ${maxTreeNodes} nodes. For a larger tree, read a part (\`root\`, \`depth\`) or the list of nodes.`,
  params: keyed,
  query: z.strictObject({
    root: nodeAddressSchema.optional(),
    depth: levels(maxNodeDepth, 'Levels from the top; 1: only the top').optional(),
    status: anyOf(nodeStatuses).optional(),
    as_of: asOfSchema.optional(),
  }),
  answers: { 200: { description: 'The roots, or the requested root', schema: z.array(treeNodeSchema) } },
  problems: ['not_found'],
})

const versionSchema = z
  .string()
  .refine((digits) => /^(0|[1-9][0-9]{0,8})$/.test(digits), { message: 'must be a version' })
  .transform(Number)

export const diffHierarchy = defineRoute({
  ...base,
  id: 'universe.diff-hierarchy',
  method: 'GET',
  path: '/api/v1/hierarchies/:key/diff',
  summary: 'List the differences between two versions of a hierarchy',
  description: 'Nodes are sorted by the version that changed them last. There is no count.',
  params: keyed,
  query: z.strictObject({
    limit: pageQuery.limit,
    cursor: pageQuery.cursor,
    ...csvQuery,
    ...formQuery,
    from: versionSchema.meta({
      type: 'integer',
      minimum: 0,
      description: 'A version; 0 is the empty hierarchy',
    }),
    to: versionSchema.optional().meta({ type: 'integer', minimum: 0, description: 'Default: the current version' }),
  }),
  answers: { 200: { description: 'Nodes that differ', schema: z.array(nodeChangeSchema) } },
  problems: ['not_found'],
})

export const universeRoutes = [
  listEntities,
  getEntity,
  listChildrenOfEntity,
  listAncestorsOfEntity,
  listHierarchies,
  getHierarchy,
  listNodes,
  getNode,
  getTree,
  diffHierarchy,
  listTestProcedures,
  getTestProcedure,
  listPeople,
  getPerson,
] as const
