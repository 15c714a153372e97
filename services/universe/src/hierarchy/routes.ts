import {
  type Hierarchy,
  type HierarchyNodeChange,
  diffHierarchy,
  getHierarchy,
  getTree,
  hierarchyKeySchema,
  listHierarchies as listRoute,
  listNodes as nodesRoute,
  maxTreeNodes,
} from '@postern/contracts'
import { type App, contractRoute, openPage, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { changeOf, nest, parseAsOf, parseNodeAddress } from './rules.ts'
import {
  type FoundHierarchy,
  type ListedChange,
  type NodeFilter,
  changeKeySchema,
  countHierarchies,
  countNodes,
  findHierarchy,
  listHierarchies,
  listNodes,
  listWrittenBetween,
  nodeKeySchema,
} from './store.ts'

/** Reading hierarchies: as they are, as they were, and what has changed. */
export function hierarchyRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, listRoute, async (input) => {
    const page = openPage(input, listRoute, hierarchyKeySchema)
    const [rows, total] = await db.read(input.context, async (tx) =>
      Promise.all([
        listHierarchies(tx, page.after, page.limit + 1),
        page.wantsTotal ? countHierarchies(tx) : undefined,
      ]),
    )
    if (total !== undefined) page.total(total)
    return page.finish(rows, ({ key }) => key)
  })

  contractRoute(app, getHierarchy, async ({ params, context, answer }) => {
    const found = await db.read(context, async (tx) => findHierarchy(tx, params.key))
    if (found === undefined) throw problem('not_found')
    answer.etag(tagOf(found.hierarchy))
    return found.hierarchy
  })

  contractRoute(app, nodesRoute, async (input) => {
    const { params, query, context } = input
    const page = openPage(input, nodesRoute, nodeKeySchema)
    const filter: NodeFilter = {
      key: params.key,
      asOf: query.as_of === undefined ? undefined : parseAsOf(query.as_of),
      top: query.subtree_of === undefined ? undefined : parseNodeAddress(query.subtree_of),
      levels: query.depth,
      status: query.status,
      search: query.q,
    }
    const [found, rows, total] = await db.read(context, async (tx) =>
      Promise.all([
        findHierarchy(tx, params.key, filter.asOf),
        listNodes(tx, filter, page.after, page.limit + 1),
        page.wantsTotal ? countNodes(tx, filter) : undefined,
      ]),
    )
    assertVersion(found, 'as_of')
    if (total !== undefined) page.total(total)
    return page.finish(rows, ({ key }) => key).map(({ node }) => node)
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
      Promise.all([findHierarchy(tx, params.key, filter.asOf), listNodes(tx, filter, undefined, maxTreeNodes + 1)]),
    )
    assertVersion(found, 'as_of')
    if (nodes.length > maxTreeNodes) {
      throw problem('bad_request', {
        detail: `The tree has more than ${maxTreeNodes} nodes. Ask for a part of it, or for the list of nodes.`,
        errors: [{ parameter: 'root', code: 'too_large', detail: `must lead to at most ${maxTreeNodes} nodes` }],
      })
    }
    return nest(nodes.map(({ node }) => node))
  })

  contractRoute(app, diffHierarchy, async (input) => {
    const { params, query, context } = input
    const { from, to } = query
    const page = openPage(input, diffHierarchy, changeKeySchema)
    if (to !== undefined && from > to) throw badVersion('from', 'must not be later than `to`')
    const [found, written] = await db.read(context, async (tx) =>
      Promise.all([
        findHierarchy(tx, params.key, { version: Math.max(from, to ?? 0) }),
        listWrittenBetween(tx, { key: params.key, from, to }, page.after, page.limit + 1),
      ]),
    )
    assertVersion(found, to === undefined ? 'from' : 'to')
    // A node that was written and written back reads the same: its page is then shorter than the limit.
    return page.finish(written, ({ key }) => key).flatMap(asChange)
  })
}

function asChange({ before, after }: ListedChange): HierarchyNodeChange[] {
  const change = changeOf(before, after)
  return change === undefined ? [] : [change]
}

function assertVersion(found: FoundHierarchy | undefined, parameter: string): void {
  if (found === undefined) throw problem('not_found')
  const { hierarchy, wanted } = found
  if (wanted > hierarchy.version) throw badVersion(parameter, `is at most ${hierarchy.version}, the version of now`)
}

function badVersion(parameter: string, detail: string): Error {
  return problem('bad_request', { errors: [{ parameter, code: 'out_of_range', detail }] })
}

/** A hierarchy may change its name without a new version of its nodes. */
function tagOf({ version, updated_at }: Hierarchy): string {
  return `"${version}.${Date.parse(updated_at)}"`
}
