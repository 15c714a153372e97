import {
  type Hierarchy,
  type HierarchyNodeChange,
  diffHierarchy,
  getHierarchy,
  getNode,
  getTree,
  hierarchyKeySchema,
  listHierarchies as listRoute,
  listNodes as nodesRoute,
  maxTreeNodes,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  contractList,
  contractRoute,
  mapRows,
  openPage,
  problem,
  storedList,
  streamList,
} from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { type ListedChange, changeKeySchema, listWrittenBetween } from './diff-store.ts'
import { changeOf, toTree, parseAsOf, parseNodeAddress } from './rules.ts'
import {
  type FoundHierarchy,
  type NodeFilter,
  countHierarchies,
  countNodes,
  findHierarchy,
  findNode,
  listHierarchies,
  listNodes,
  nodeKeySchema,
} from './store.ts'

export function hierarchyRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  storedList(app, listRoute, {
    source: db,
    key: () => hierarchyKeySchema,
    asked: () => undefined,
    list: async (tx, _, { after, limit }) => await listHierarchies(tx, after, limit),
    count: countHierarchies,
    keyOf: ({ key }) => key,
    show: (hierarchy) => hierarchy,
  })

  contractRoute(app, getHierarchy, async ({ params, context, answer }) => {
    const found = await db.read(context, async (tx) => findHierarchy(tx, params.key))
    if (found === undefined) throw problem('not_found')
    answer.etag(tagOf(found.hierarchy))
    return found.hierarchy
  })

  contractList(app, nodesRoute, {
    page: async (input) => {
      const { sort } = input.query
      const page = openPage(input, nodesRoute, nodeKeySchema(sort))
      const filter = nodesOf(input)
      const [found, rows, total] = await db.read(input.context, async (tx) =>
        Promise.all([
          findHierarchy(tx, filter.key, filter.asOf),
          listNodes(tx, filter, { sort, after: page.after, limit: page.limit + 1 }),
          page.wantsTotal ? countNodes(tx, filter) : undefined,
        ]),
      )
      assertVersion(found, 'as_of')
      if (total !== undefined) page.total(total)
      return page.finish(rows, ({ key }) => key).map(({ node }) => node)
    },
    all: async function* (input) {
      const { sort } = input.query
      const page = openPage(input, nodesRoute, nodeKeySchema(sort))
      const filter = nodesOf(input)
      const found = await db.read(input.context, async (tx) => findHierarchy(tx, filter.key, filter.asOf))
      assertVersion(found, 'as_of')
      const pinned: NodeFilter = { ...filter, asOf: { version: found.wanted } }
      const rows = streamList(db, input.context, {
        after: page.after,
        size: exportBatch,
        list: async (tx, after, limit) => listNodes(tx, pinned, { sort, after, limit }),
        keyOf: ({ key }) => key,
      })
      yield* mapRows(rows, ({ node }) => node)
    },
  })

  contractRoute(app, getNode, async ({ params, context, answer }) => {
    const node = await db.read(context, async (tx) => findNode(tx, params.id))
    if (node === undefined) throw problem('not_found')
    // Every change of a node creates a version of its hierarchy.
    answer.etag(`"${node.since_version}"`)
    return node
  })

  contractRoute(app, getTree, async ({ params, query, context }) => {
    const filter: NodeFilter = {
      key: params.key,
      asOf: query.as_of === undefined ? undefined : parseAsOf(query.as_of),
      top: query.root === undefined ? undefined : parseNodeAddress(query.root),
      levels: query.depth,
      status: query.status,
      search: undefined,
    }
    const [found, nodes] = await db.read(context, async (tx) =>
      Promise.all([findHierarchy(tx, params.key, filter.asOf), listNodes(tx, filter, wholeTree)]),
    )
    assertVersion(found, 'as_of')
    if (nodes.length > maxTreeNodes) {
      throw problem('bad_request', {
        detail: `The tree has more than ${maxTreeNodes} nodes. Request a part of it, or list its nodes.`,
        errors: [{ parameter: 'root', code: 'too_large', detail: `must lead to at most ${maxTreeNodes} nodes` }],
      })
    }
    return toTree(nodes.map(({ node }) => node))
  })

  contractList(app, diffHierarchy, {
    page: async (input) => {
      const { params, query, context } = input
      const page = openPage(input, diffHierarchy, changeKeySchema)
      const { from, to } = versionsOf(query)
      const [found, written] = await db.read(context, async (tx) =>
        Promise.all([
          findHierarchy(tx, params.key, { version: Math.max(from, to ?? 0) }),
          listWrittenBetween(tx, { key: params.key, from, to }, page.after, page.limit + 1),
        ]),
      )
      assertVersion(found, to === undefined ? 'from' : 'to')
      // A node that was changed and changed back is omitted, so a page can be shorter than the limit.
      return page.finish(written, ({ key }) => key).flatMap(asChange)
    },
    all: async function* (input) {
      const { params, query, context } = input
      const page = openPage(input, diffHierarchy, changeKeySchema)
      const { from, to } = versionsOf(query)
      const found = await db.read(context, async (tx) =>
        findHierarchy(tx, params.key, { version: Math.max(from, to ?? 0) }),
      )
      assertVersion(found, to === undefined ? 'from' : 'to')
      const span = { key: params.key, from, to: to ?? found.hierarchy.version }
      const rows = streamList(db, context, {
        after: page.after,
        size: exportBatch,
        list: async (tx, after, limit) => listWrittenBetween(tx, span, after, limit),
        keyOf: ({ key }) => key,
      })
      for await (const row of rows) yield* asChange(row)
    },
  })
}

const wholeTree = { sort: 'tree', after: undefined, limit: maxTreeNodes + 1 } as const

const exportBatch = 500

function nodesOf({ params, query }: ContractInput<typeof nodesRoute>): NodeFilter {
  return {
    key: params.key,
    asOf: query.as_of === undefined ? undefined : parseAsOf(query.as_of),
    top: query.subtree_of === undefined ? undefined : parseNodeAddress(query.subtree_of),
    levels: query.depth,
    status: query.status,
    search: query.q,
  }
}

function versionsOf({ from, to }: ContractInput<typeof diffHierarchy>['query']): {
  readonly from: number
  readonly to: number | undefined
} {
  if (to !== undefined && from > to) throw versionProblem('from', 'must not be later than `to`')
  return { from, to }
}

function asChange({ before, after }: ListedChange): HierarchyNodeChange[] {
  const change = changeOf(before, after)
  return change === undefined ? [] : [change]
}

function assertVersion(found: FoundHierarchy | undefined, parameter: string): asserts found is FoundHierarchy {
  if (found === undefined) throw problem('not_found')
  const { hierarchy, wanted } = found
  if (wanted > hierarchy.version)
    throw versionProblem(parameter, `must be at most ${hierarchy.version}, the current version`)
}

function versionProblem(parameter: string, detail: string): Error {
  return problem('bad_request', { errors: [{ parameter, code: 'out_of_range', detail }] })
}

/** A hierarchy can be renamed without a new version. */
function tagOf({ version, updated_at }: Hierarchy): string {
  return `"${version}.${Date.parse(updated_at)}"`
}
