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
import { type Pages, pagesOf } from './pages.ts'
import { type Readable, type Target, addressOf, readableMethods } from './resource.ts'

/** Needs `read:universe`. */
export interface Entities extends Readable<ExpandedEntity> {
  /** Finds by id, `ref:<reference>` or `ext:<external id>`. `expand` adds `ancestors`, `nodes` and `open_findings`. */
  get(address: string, options?: CallOptions & QueryOf<'getEntity'>): Promise<ExpandedEntity>
  list(filter?: QueryOf<'listEntities'>, options?: CallOptions): Pages<ExpandedEntity>
  children(target: Target, filter?: QueryOf<'listChildrenOfEntity'>, options?: CallOptions): Pages<Entity>
  /** Returns the ancestors from the root down. */
  ancestors(target: Target, options?: CallOptions): Promise<Entity[]>
}

/** Needs `read:universe`. Address a hierarchy by its key or id. */
export interface Hierarchies {
  list(query?: QueryOf<'listHierarchies'>, options?: CallOptions): Pages<Hierarchy>
  get(key: string, options?: CallOptions): Promise<Hierarchy>
  refresh(hierarchy: Hierarchy, options?: CallOptions): Promise<Hierarchy>
  nodes(key: string, filter?: QueryOf<'listNodes'>, options?: CallOptions): Pages<HierarchyNode>
  /** Finds a node of any hierarchy by id. */
  node(id: string, options?: CallOptions): Promise<LookedUpNode>
  tree(key: string, query?: QueryOf<'getTree'>, options?: CallOptions): Promise<HierarchyTreeNode[]>
  /** The differences between two versions. */
  diff(key: string, query: QueryOf<'diffHierarchy'>, options?: CallOptions): Pages<HierarchyNodeChange>
}

/** Needs `read:universe`. */
export interface TestProcedures extends Readable<TestProcedure> {
  list(filter?: QueryOf<'listTestProcedures'>, options?: CallOptions): Pages<TestProcedure>
}

/** Needs `read:universe`. `ref:` does not work. */
export interface People extends Readable<Person> {
  list(filter?: QueryOf<'listPeople'>, options?: CallOptions): Pages<Person>
}

/** Store `next` with the changes: it is valid for 30 days. */
export interface ChangesPage {
  readonly changes: readonly Change[]
  readonly next: string
}

/** Needs `read:findings` or `read:universe`. Returns only changes that the key can read. */
export interface Changes {
  /**
   * Returns one page. `since` is the previous `next`, or `now` to start at the end; the default is the oldest change.
   */
  read(query?: QueryOf<'listChanges'>, options?: CallOptions): Promise<ChangesPage>
  /** Yields pages until there are no new changes. */
  catchUp(query?: QueryOf<'listChanges'>, options?: CallOptions): AsyncGenerator<ChangesPage, void, undefined>
}

export function openEntities(connection: Connection): Entities {
  const { refresh } = readableMethods(connection, 'getEntity')
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
    ...readableMethods(connection, 'getHierarchy', 'key'),
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
    ...readableMethods(connection, 'getTestProcedure'),
    list: (filter, options = {}) => pagesOf(connection, 'listTestProcedures', {}, filter, options),
  }
}

export function openPeople(connection: Connection): People {
  return {
    ...readableMethods(connection, 'getPerson'),
    list: (filter, options = {}) => pagesOf(connection, 'listPeople', {}, filter, options),
  }
}

export function openChanges(connection: Connection): Changes {
  const read = async (query: QueryOf<'listChanges'>, { signal }: CallOptions): Promise<ChangesPage> => {
    const [method, path] = operations.listChanges
    const answer = await connection.receive({ method, target: `${path}${queryOf(query)}`, signal })
    const next = answer.headers.get('postern-next-since')
    if (next === null) throw new TypeError('the response has no next position in the feed')
    return { changes: readJson<Change[]>(answer), next }
  }
  return {
    read: async (query = {}, options = {}) => await read(query, options),
    catchUp: async function* catchUp(query = {}, options = {}) {
      let lastYielded = query.since
      let before = query.since
      let page = await read(query, options)
      // An empty page with a new `next` skipped changes that the key cannot read.
      while (page.changes.length > 0 || (before !== 'now' && page.next !== before)) {
        if (page.changes.length > 0) {
          yield page
          lastYielded = page.next
        }
        before = page.next
        page = await read({ ...query, since: before }, options)
      }
      // The API forgets older positions after a month.
      if (page.next !== lastYielded) yield page
    },
  }
}
