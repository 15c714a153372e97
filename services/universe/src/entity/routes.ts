import { hash } from 'node:crypto'
import {
  type ExpandedEntity,
  getEntity,
  listAncestorsOfEntity,
  listChildrenOfEntity,
  listEntities as listRoute,
  nodeAddressSchema,
  parseResourceAddress,
  resourceAddressSchema,
} from '@postern/contracts'
import { type App, type ContractInput, contractRoute, openPage, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { parseNodeAddress } from '../hierarchy/rules.ts'
import { asRead, entityTag } from './rules.ts'
import {
  type EntityFilter,
  type EntitySort,
  countEntities,
  entityKeySchema,
  findEntity,
  listAncestors,
  listEntities,
  listNodesOfEntity,
} from './store.ts'

/** Listing and reading auditable entities. */
export function entityRoutes(app: App, { db, now }: Pick<Deps, 'db' | 'now'>): void {
  const today = (): string => now().toISOString().slice(0, 10)

  contractRoute(app, listRoute, async (input) => {
    const { query, context } = input
    const filter = filterOf(query)
    const sort = sortOf(query.sort, filter)
    const page = openPage(input, listRoute, entityKeySchema(sort))
    const [rows, total] = await db.read(context, async (tx) =>
      Promise.all([
        listEntities(tx, { filter, sort, after: page.after, limit: page.limit + 1 }),
        page.wantsTotal ? countEntities(tx, filter) : undefined,
      ]),
    )
    if (total !== undefined) page.total(total)
    const day = today()
    return page.finish(rows, (row) => row.key).map((row) => asRead(row.entity, day))
  })

  contractRoute(app, getEntity, async ({ params, query, context, answer }) => {
    const address = parseResourceAddress(params.id)
    const wants = new Set(query.expand)
    const [stored, above, nodes] = await db.read(context, async (tx) =>
      Promise.all([
        findEntity(tx, address),
        wants.has('ancestors') ? listAncestors(tx, address) : undefined,
        wants.has('nodes') ? listNodesOfEntity(tx, address) : undefined,
      ]),
    )
    if (stored === undefined) throw problem('not_found')
    const day = today()
    const expanded: Pick<ExpandedEntity, 'ancestors' | 'nodes'> = {
      ...(above === undefined ? {} : { ancestors: above.map(({ id, reference, name }) => ({ id, reference, name })) }),
      ...(nodes === undefined ? {} : { nodes }),
    }
    // What is expanded changes without the entity.
    const tag = wants.size === 0 ? undefined : hash('sha256', JSON.stringify(expanded), 'base64url').slice(0, 22)
    answer.etag(entityTag(stored.version, day, tag))
    return { ...asRead(stored, day), ...expanded }
  })

  contractRoute(app, listChildrenOfEntity, async (input) => {
    const { params, query, context } = input
    const top = parseResourceAddress(params.id)
    // Children alone are listed from the index of parents; siblings stand in the tree by their numbers as well.
    const place: EntityFilter =
      query.depth === 1 ? { parent: top } : { within: { top, below: true, depth: query.depth } }
    const filter: EntityFilter = { ...place, type: query.type, status: query.status }
    const sort = query.depth === 1 ? 'reference' : 'tree'
    const page = openPage(input, listChildrenOfEntity, entityKeySchema(sort))
    const [entity, rows, total] = await db.read(context, async (tx) =>
      Promise.all([
        findEntity(tx, top),
        listEntities(tx, { filter, sort, after: page.after, limit: page.limit + 1 }),
        page.wantsTotal ? countEntities(tx, filter) : undefined,
      ]),
    )
    if (entity === undefined) throw problem('not_found')
    if (total !== undefined) page.total(total)
    const day = today()
    return page.finish(rows, (row) => row.key).map((row) => asRead(row.entity, day))
  })

  contractRoute(app, listAncestorsOfEntity, async ({ params, context }) => {
    const above = await db.read(context, async (tx) => listAncestors(tx, parseResourceAddress(params.id)))
    if (above === undefined) throw problem('not_found')
    const day = today()
    return above.map((entity) => asRead(entity, day))
  })
}

function filterOf(query: ContractInput<typeof listRoute>['query']): EntityFilter {
  const { parent_id, hierarchy, subtree_of } = query
  return {
    type: query.type,
    status: query.status,
    parent: parent_id === undefined || parent_id === 'none' ? parent_id : { by: 'id', id: parent_id },
    within:
      subtree_of === undefined || hierarchy !== undefined
        ? undefined
        : { top: parseResourceAddress(addressIn(resourceAddressSchema, subtree_of)), below: false, depth: undefined },
    hierarchy:
      hierarchy === undefined
        ? undefined
        : {
            key: hierarchy,
            node: subtree_of === undefined ? undefined : parseNodeAddress(addressIn(nodeAddressSchema, subtree_of)),
          },
    owner: query.owner,
    riskRating: query.risk_rating,
    nextAuditDueBefore: query.next_audit_due_before,
    externalId: query.external_id,
    updatedSince: query.updated_since,
    search: query.q,
  }
}

function addressIn(schema: typeof resourceAddressSchema | typeof nodeAddressSchema, address: string): string {
  const parsed = schema.safeParse(address)
  if (parsed.success) return parsed.data
  throw problem('bad_request', {
    errors: [
      {
        parameter: 'subtree_of',
        code: 'invalid',
        detail: 'is the address of an entity, or with `hierarchy` the address of a node',
      },
    ],
  })
}

function sortOf(sort: EntitySort | undefined, { within }: EntityFilter): EntitySort {
  if (sort !== 'tree') return sort ?? (within === undefined ? 'reference' : 'tree')
  if (within !== undefined) return sort
  throw problem('bad_request', {
    errors: [{ parameter: 'sort', code: 'invalid', detail: 'is `tree` only with `subtree_of` an entity' }],
  })
}
