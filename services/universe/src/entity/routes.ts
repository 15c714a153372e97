import { hash } from 'node:crypto'
import {
  getEntity,
  listAncestorsOfEntity,
  listChildrenOfEntity,
  listEntities as listRoute,
  mostExpanded,
  nodeAddressSchema,
  parseResourceAddress,
  resourceAddressSchema,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  type Page,
  type RequestInfo,
  contractList,
  contractRoute,
  mapRows,
  openPage,
  problem,
  storedList,
  streamList,
} from '@postern/service-kit'
import { ownerFilterOf, tooManyOwners } from '@postern/contracts/internal'
import { identifyPeople } from '../person/store.ts'
import { findChangedFrom, findFeedMark } from '../updated-since/store.ts'
import type { Deps } from '../deps.ts'
import { parseNodeAddress } from '../hierarchy/rules.ts'
import type { ListKey } from '../list/store.ts'
import { expand } from './expand.ts'
import { asRead, entityTag } from './rules.ts'
import {
  type EntityFilter,
  type EntitySort,
  type Tx,
  countEntities,
  entityKeySchema,
  findEntity,
  hasFewLinks,
  listAncestors,
  listEntities,
} from './store.ts'

export function entityRoutes(app: App, deps: Pick<Deps, 'db' | 'now' | 'findings'>): void {
  const { db, now } = deps
  const today = (): string => now().toISOString().slice(0, 10)

  const readAll = (context: RequestInfo['context'], page: Page<ListKey>, { filter, sort }: EntityList) => {
    const day = today()
    const rows = streamList(db, context, {
      after: page.after,
      size: exportBatch,
      list: async (tx, after, limit) => listEntities(tx, { filter, sort, after, limit }),
      keyOf: ({ key }) => key,
    })
    return mapRows(rows, ({ entity }) => asRead(entity, day))
  }

  const ownersOf = async (context: RequestInfo['context'], texts: readonly string[] | undefined) => {
    if (texts === undefined) return undefined
    const people = await db.read(context, async (tx) => identifyPeople(tx, texts))
    if (people === undefined) throw problem('bad_request', { errors: [tooManyOwners] })
    return ownerFilterOf(texts, people)
  }

  const listOf = async (input: ContractInput<typeof listRoute>) => {
    const { context, query } = input
    const owner = await ownersOf(context, query.owner)
    const filter = { ...filterOf(query, await findChangedFrom(db, context, query.updated_since)), owner }
    const sort = sortOf(input.query.sort, filter)
    const page = openPage(input, listRoute, entityKeySchema(sort))
    const { hierarchy } = filter
    if (hierarchy === undefined || hierarchy.node !== undefined) return { list: { filter, sort }, page }
    // Before the list: a read sends all of its statements at once.
    const isSmall = await db.read(input.context, async (tx) => await hasFewLinks(tx, hierarchy.key))
    return { list: { filter: { ...filter, hierarchy: { ...hierarchy, isSmall } }, sort }, page }
  }

  contractList(app, listRoute, {
    page: async (input) => {
      const { list, page } = await listOf(input)
      const [rows, total, mark] = await db.read(input.context, async (tx) => read(tx, page, list))
      if (total !== undefined) page.total(total)
      if (mark !== undefined) page.nextUpdatedSince(mark)
      const day = today()
      const entities = page.finish(rows, (row) => row.key).map((row) => asRead(row.entity, day))
      const { expand: wanted = [] } = input.query
      if (wanted.length === 0) return entities
      const parts = await expand(deps, input, entities, { wanted, most: mostExpanded.listed })
      return entities.map((entity) => ({ ...entity, ...parts.get(entity.id) }))
    },
    all: async function* (input) {
      const { list, page } = await listOf(input)
      if (page.wantsMark) page.nextUpdatedSince(await db.read(input.context, findFeedMark))
      yield* readAll(input.context, page, list)
    },
  })

  contractRoute(app, getEntity, async (input) => {
    const { params, query, context, answer } = input
    const address = parseResourceAddress(params.id)
    const stored = await db.read(context, async (tx) => findEntity(tx, address))
    if (stored === undefined) throw problem('not_found')
    const day = today()
    const { expand: wanted = [] } = query
    const expanded =
      wanted.length === 0
        ? {}
        : (await expand(deps, input, [stored], { wanted, most: mostExpanded.one })).get(stored.id)
    const tag = wanted.length === 0 ? undefined : hash('sha256', JSON.stringify(expanded), 'base64url').slice(0, 22)
    answer.etag(entityTag(stored, day, tag))
    return { ...asRead(stored, day), ...expanded }
  })

  storedList(app, listChildrenOfEntity, {
    source: db,
    key: ({ query }) => entityKeySchema(childrenSort(query)),
    asked: (input) => ({ ...childrenOf(input), day: today() }),
    isThere: async (tx, { top }) => (await findEntity(tx, top)) !== undefined,
    list: async (tx, { filter, sort }, place) => await listEntities(tx, { filter, sort, ...place }),
    count: async (tx, { filter }) => await countEntities(tx, filter),
    keyOf: ({ key }) => key,
    show: ({ entity }, { day }) => asRead(entity, day),
  })

  contractRoute(app, listAncestorsOfEntity, async ({ params, context }) => {
    const above = await db.read(context, async (tx) => listAncestors(tx, parseResourceAddress(params.id)))
    if (above === undefined) throw problem('not_found')
    const day = today()
    return above.map((entity) => asRead(entity, day))
  })
}

const exportBatch = 500

interface EntityList {
  readonly filter: EntityFilter
  readonly sort: EntitySort
}

async function read(tx: Tx, page: Page<ListKey>, { filter, sort }: EntityList) {
  return await Promise.all([
    listEntities(tx, { filter, sort, after: page.after, limit: page.limit + 1 }),
    page.wantsTotal ? countEntities(tx, filter) : undefined,
    page.wantsMark ? findFeedMark(tx) : undefined,
  ])
}

type ChildrenInput = Pick<ContractInput<typeof listChildrenOfEntity>, 'params' | 'query'>

function childrenSort({ depth }: ChildrenInput['query']): EntitySort {
  return depth === 1 ? 'reference' : 'tree'
}

function childrenOf({ params, query }: ChildrenInput) {
  const top = parseResourceAddress(params.id)
  // Direct children are listed from the index of parents.
  const place: EntityFilter =
    query.depth === 1 ? { parents: [top] } : { within: { top, excludesTop: true, depth: query.depth } }
  const filter: EntityFilter = { ...place, type: query.type, status: query.status }
  return { top, filter, sort: childrenSort(query) }
}

function filterOf(query: ContractInput<typeof listRoute>['query'], updatedSince: string | undefined): EntityFilter {
  const { parent_id, hierarchy, subtree_of } = query
  return {
    type: query.type,
    status: query.status,
    parents: parent_id === undefined || parent_id === 'none' ? parent_id : parent_id.map(parseResourceAddress),
    within:
      subtree_of === undefined || hierarchy !== undefined
        ? undefined
        : {
            top: parseResourceAddress(addressIn(resourceAddressSchema, subtree_of)),
            excludesTop: false,
            depth: undefined,
          },
    hierarchy:
      hierarchy === undefined
        ? undefined
        : {
            key: hierarchy,
            isSmall: false,
            node: subtree_of === undefined ? undefined : parseNodeAddress(addressIn(nodeAddressSchema, subtree_of)),
          },
    riskRating: query.risk_rating,
    nextAuditDueBefore: query.next_audit_due_before,
    externalId: query.external_id,
    connectorId: query.connector_id,
    missing: query.missing === undefined ? undefined : query.missing === 'true',
    updatedSince,
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
        detail: 'must be the address of an entity or, with `hierarchy`, of a node',
      },
    ],
  })
}

function sortOf(sort: EntitySort | undefined, { within }: EntityFilter): EntitySort {
  if (sort !== 'tree') return sort ?? (within === undefined ? 'reference' : 'tree')
  if (within !== undefined) return sort
  throw problem('bad_request', {
    errors: [{ parameter: 'sort', code: 'invalid', detail: 'can be `tree` only if `subtree_of` is an entity' }],
  })
}
