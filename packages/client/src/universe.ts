import type {
  Change,
  Entity,
  ExpandedEntity,
  Hierarchy,
  HierarchyNode,
  HierarchyNodeChange,
  HierarchyTreeNode,
  LookedUpNode,
  Person,
  TestProcedure,
} from '@postern/contracts'
import type { CallOptions, Connection } from './connection.ts'
import { queryOf, readJson } from './connection.ts'
import { type QueryOf, operations } from './operations.ts'
import { type Pages, nextUrl, pagesOf } from './pages.ts'
import { type Readable, type Target, addressOf, readable } from './resource.ts'

/** Needs `read:universe`. */
export interface Entities extends Readable<ExpandedEntity> {
  /** By id, `ref:<reference>` or `ext:<external id>`; `expand` adds `ancestors`, `nodes` and `open_findings`. */
  get(address: string, options?: CallOptions & QueryOf<'getEntity'>): Promise<ExpandedEntity>
  list(filter?: QueryOf<'listEntities'>, options?: CallOptions): Pages<ExpandedEntity>
  children(target: Target, filter?: QueryOf<'listChildrenOfEntity'>, options?: CallOptions): Pages<Entity>
  /** From the root down. */
  ancestors(target: Target, options?: CallOptions): Promise<Entity[]>
}

/** Needs `read:universe`. A hierarchy is addressed by its key or its id. */
export interface Hierarchies {
  list(query?: QueryOf<'listHierarchies'>, options?: CallOptions): Pages<Hierarchy>
  get(key: string, options?: CallOptions): Promise<Hierarchy>
  refresh(hierarchy: Hierarchy, options?: CallOptions): Promise<Hierarchy>
  nodes(key: string, filter?: QueryOf<'listNodes'>, options?: CallOptions): Pages<HierarchyNode>
  /** By id, whatever hierarchy it is of. */
  node(id: string, options?: CallOptions): Promise<LookedUpNode>
  tree(key: string, query?: QueryOf<'getTree'>, options?: CallOptions): Promise<HierarchyTreeNode[]>
  /** What differs between two versions. */
  diff(key: string, query: QueryOf<'diffHierarchy'>, options?: CallOptions): Pages<HierarchyNodeChange>
}

/** Needs `read:universe`. */
export interface TestProcedures extends Readable<TestProcedure> {
  list(filter?: QueryOf<'listTestProcedures'>, options?: CallOptions): Pages<TestProcedure>
}

/** Needs `read:universe`. People have no reference: `ref:` is no address of theirs. */
export interface People extends Readable<Person> {
  list(filter?: QueryOf<'listPeople'>, options?: CallOptions): Pages<Person>
}

/** Some changes, and where to go on: the text is good for 30 days, to be kept wherever the changes are kept. */
export interface ChangesPage {
  readonly changes: readonly Change[]
  readonly next: string
}

/** Needs `read:findings` or `read:universe`, and tells of what the key can read. */
export interface Changes {
  /** One page. `since`: the `next` of the page before, or `now` to begin at the end of the feed; absent: all that is kept. */
  read(query?: QueryOf<'listChanges'>, options?: CallOptions): Promise<ChangesPage>
  /** Page after page until there is nothing new. */
  catchUp(query?: QueryOf<'listChanges'>, options?: CallOptions): AsyncGenerator<ChangesPage, void, undefined>
}

export function openEntities(connection: Connection): Entities {
  const { refresh } = readable(connection, 'getEntity')
  return {
    refresh,
    get: async (address, { signal, ...query } = {}) =>
      await connection.call('getEntity', { params: { id: address }, query, signal }),
    list: (filter, options = {}) => pagesOf(connection, 'listEntities', {}, filter, options),
    children: (target, filter, options = {}) =>
      pagesOf(connection, 'listChildrenOfEntity', { id: addressOf(target) }, filter, options),
    ancestors: async (target, options = {}) =>
      await connection.call('listAncestorsOfEntity', { params: { id: addressOf(target) }, ...options }),
  }
}

export function openHierarchies(connection: Connection): Hierarchies {
  return {
    ...readable(connection, 'getHierarchy', 'key'),
    list: (query, options = {}) => pagesOf(connection, 'listHierarchies', {}, query, options),
    nodes: (key, filter, options = {}) => pagesOf(connection, 'listNodes', { key }, filter, options),
    node: async (id, { signal } = {}) => await connection.call('getNode', { params: { id }, signal }),
    tree: async (key, query = {}, options = {}) =>
      await connection.call('getTree', { params: { key }, query, ...options }),
    diff: (key, query, options = {}) => pagesOf(connection, 'diffHierarchy', { key }, query, options),
  }
}

export function openTestProcedures(connection: Connection): TestProcedures {
  return {
    ...readable(connection, 'getTestProcedure'),
    list: (filter, options = {}) => pagesOf(connection, 'listTestProcedures', {}, filter, options),
  }
}

export function openPeople(connection: Connection): People {
  return {
    ...readable(connection, 'getPerson'),
    list: (filter, options = {}) => pagesOf(connection, 'listPeople', {}, filter, options),
  }
}

export function openChanges(connection: Connection): Changes {
  const read = async (query: QueryOf<'listChanges'>, { signal }: CallOptions): Promise<ChangesPage> => {
    const [method, path] = operations.listChanges
    const answer = await connection.receive({ method, target: `${path}${queryOf(query)}`, signal })
    const url = nextUrl(answer.headers.get('link'))
    const next =
      url === undefined ? undefined : new URLSearchParams(connection.targetOf(url).split('?', 2)[1]).get('since')
    if (typeof next !== 'string') throw new TypeError('the answer does not say where to go on')
    return { changes: readJson<Change[]>(answer), next }
  }
  return {
    read: async (query = {}, options = {}) => await read(query, options),
    catchUp: async function* catchUp(query = {}, options = {}) {
      let told = query.since
      let before = query.since
      let page = await read(query, options)
      // An empty page that leads on has passed much that the key may not read; at the end the link stays what it is.
      while (page.changes.length > 0 || (before !== 'now' && page.next !== before)) {
        if (page.changes.length > 0) {
          yield page
          told = page.next
        }
        before = page.next
        page = await read({ ...query, since: before }, options)
      }
      // What was passed over is kept for a month: whoever went on from before it would be told one day that it is gone.
      if (page.next !== told) yield page
    },
  }
}
