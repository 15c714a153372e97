import type { Statement, Tx } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { countEntities, hasFewLinks, listAncestors, listEntities } from '../src/entity/store.ts'
import { type ChangeKey, listWrittenBetween } from '../src/hierarchy/diff-store.ts'
import { type NodeFilter, type NodeSort, listNodes } from '../src/hierarchy/store.ts'
import { applyNodes, listUnknownEntities, openHierarchy, stageNodes } from '../src/push-hierarchy/store.ts'
import { type Principal, type UniverseUnderTest, newTenant, path, readEntities, startUniverse } from './service.ts'

const size = 100_000

let universe: UniverseUnderTest
let tenant: Principal
beforeAll(async () => {
  universe = await startUniverse()
  tenant = newTenant()
  await fill(tenant.tenantId)
})
afterAll(async () => await universe.close())

/** SQL for the id of entity or node n: a UUID that is the same each time. */
function id(kind: 'e' | 'n', n: string): string {
  const digits = `md5($1::text || '${kind}' || (${n}))`
  return `overlay(overlay(${digits} placing '7' from 13) placing '8' from 17)::uuid`
}

// Trees of ten children each, as the triggers would leave them: entity n and node n hang below n / 10.
async function fill(tenantId: string): Promise<void> {
  const [hierarchyId, few] = [crypto.randomUUID(), crypto.randomUUID()]
  const parent = 'case when n <= 10 then null else (n + 8) / 10 end'
  const above = `
    with recursive placed (n, path) as (
      select n, universe.path_label(n) from generate_series(1, 10) as n
      union all
      select child.n, placed.path || universe.path_label(child.n)
      from placed
      cross join lateral generate_series(placed.n * 10 - 8, placed.n * 10 + 1) as child (n)
      where child.n > 10 and child.n <= $2::integer
    )`
  await universe.asSuperuser.system(async (tx) => {
    // Filling is not what is tested here; foreign keys and triggers would take most of the time.
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({
      text: `insert into universe.entity
          (tenant_id, id, number, external_id, name, type, status, parent_id, created_by_type, created_by_id, created_by_label)
        select $1::text::uuid, ${id('e', 'n')}, n, 'e' || n, 'Entity ' || n, 'process', 'active', ${id('e', parent)},
          'connector', 'c', 'l'
        from generate_series(1, $2::integer) as n`,
      values: [tenantId, size],
    })
    await tx.execute({
      text: `${above}
        insert into universe.entity_path (tenant_id, entity_id, path)
        select $1::text::uuid, ${id('e', 'n')}, path from placed`,
      values: [tenantId, size],
    })
    await tx.execute({
      text: `insert into universe.hierarchy
          (tenant_id, id, key, name, kind, is_primary, version, node_count, created_by_type, created_by_id, created_by_label)
        values
          ($1, $2, 'legal', 'Legal', 'legal_entity', true, 1, $4, 'connector', 'c', 'l'),
          ($1, $3, 'few', 'Few', 'custom', false, 1, 10, 'connector', 'c', 'l')`,
      values: [tenantId, hierarchyId, few, size],
    })
    await tx.execute({
      text: `${above}
        insert into universe.node
          (tenant_id, id, hierarchy_id, number, node_key, parent_id, name, status, path, since_version)
        select $1::text::uuid, ${id('n', 'n')}, $3::uuid, n, 'n' || n, ${id('n', parent)}, 'Node ' || n, 'active', path, 1
        from placed`,
      values: [tenantId, size, hierarchyId],
    })
  })
  // The last ten entities, a node each, of a hierarchy of their own.
  await universe.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({
      text: `insert into universe.node (tenant_id, id, hierarchy_id, number, node_key, name, status, path, since_version)
        select $1::text::uuid, ${id('n', "'few' || n")}, $3::uuid, n, 'f' || n, 'Few ' || n, 'active', universe.path_label(n), 1
        from generate_series($2::integer - 9, $2::integer) as n`,
      values: [tenantId, size, few],
    })
    await tx.execute({
      text: `insert into universe.node_entity (tenant_id, node_id, entity_id)
        select $1::text::uuid, ${id('n', "'few' || n")}, ${id('e', 'n')} from generate_series($2::integer - 9, $2::integer) as n`,
      values: [tenantId, size],
    })
  })
  // Node n holds entity n: three in four of all.
  await universe.asSuperuser.system(async (tx) => {
    await tx.execute({ text: 'set local session_replication_role = replica', values: [] })
    await tx.execute({
      text: `insert into universe.node_entity (tenant_id, node_id, entity_id)
        select $1::text::uuid, ${id('n', 'n')}, ${id('e', 'n')} from generate_series(1, $2::integer) as n where n % 4 > 0`,
      values: [tenantId, size],
    })
  })
  for (const table of ['entity', 'entity_path', 'node', 'node_entity', 'node_history', 'hierarchy']) {
    await universe.asSuperuser.system(async (tx) => await tx.execute({ text: `analyze universe.${table}`, values: [] }))
  }
}

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly Plans?: readonly PlanNode[]
}

/** What PostgreSQL did, as the role of the service under row security, for the statements that `work` issues. */
async function explained(work: (tx: Tx) => Promise<unknown>): Promise<PlanNode[]> {
  const nodes: PlanNode[] = []
  await universe.asService.write(universe.assertionOf(tenant.tenantId), async (tx) => {
    const statements: Statement[] = []
    const recorder: Tx = {
      query: async (statement) => {
        statements.push(statement)
        return await tx.query(statement)
      },
      execute: async () => 0,
    }
    await work(recorder)
    for (const statement of statements) nodes.push(...(await planOf(tx, statement)))
  })
  return nodes
}

async function planOf(tx: Tx, { text, values }: Statement): Promise<PlanNode[]> {
  const [plan] = await tx.query<{ 'QUERY PLAN': readonly { readonly Plan: PlanNode }[] }>({
    text: `explain (analyze, costs off, timing off, summary off, format json) ${text}`,
    values,
  })
  return (plan?.['QUERY PLAN'] ?? []).flatMap(({ Plan }) => flatten(Plan))
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)]
}

/** Rows that were touched, over all steps of a plan. */
function rowsTouched(nodes: readonly PlanNode[]): number {
  // The rows of a loop are an average, of two decimals.
  return Math.max(0, ...nodes.map((node) => Math.floor((node['Actual Rows'] ?? 0) * (node['Actual Loops'] ?? 0))))
}

const large = new Set(['entity', 'entity_path', 'node'])
/** How the large tables were read, and by what else. */
const kindsOf = (nodes: readonly PlanNode[]) =>
  nodes.flatMap((node) => {
    const relation = node['Relation Name']
    return relation === undefined || large.has(relation) ? [node['Node Type']] : []
  })
const indexesOf = (nodes: readonly PlanNode[]) => new Set(nodes.map((node) => node['Index Name'] ?? ''))

/** The nodes of the hierarchy, as the API answers them. */
async function nodesOf(query: string): Promise<{ node_key: string; depth: number }[]> {
  const answer = await universe.gateway.call(tenant, 'GET', `/api/v1/hierarchies/legal/nodes?limit=1000&${query}`)
  expect(answer.status, answer.text).toBe(200)
  return z.array(z.object({ node_key: z.string(), depth: z.int() })).parse(answer.json)
}

const top = { by: 'external-id', externalId: 'e3' } as const
const page = { after: undefined, limit: 101 }
const far = { by: 'key', key: 'n9' } as const

/** A page of nodes, narrowed by that alone. */
function listing(narrow: Partial<NodeFilter>, sort: NodeSort = 'tree') {
  const all = { key: 'legal', asOf: undefined, top: undefined, levels: undefined, status: undefined, search: undefined }
  return async (tx: Tx) => await listNodes(tx, { ...all, ...narrow }, { sort, after: undefined, limit: 101 })
}

/** A page of all that differs from nothing. */
function differences(after: ChangeKey | undefined) {
  return async (tx: Tx) => await listWrittenBetween(tx, { key: 'legal', from: 0, to: 1 }, after, 101)
}

describe('over 100,000 entities and nodes, under row security', () => {
  test.each([
    [
      'the first page of a subtree',
      async (tx: Tx) =>
        await listEntities(tx, {
          filter: { within: { top, excludesTop: false, depth: undefined } },
          sort: 'tree',
          ...page,
        }),
      'entity_path_unique',
    ],
    [
      'a page amid a subtree',
      async (tx: Tx) =>
        await listEntities(tx, {
          filter: { within: { top, excludesTop: false, depth: undefined } },
          sort: 'tree',
          after: { value: '0000000300000017000000e0', tie: 1 },
          limit: 101,
        }),
      'entity_path_unique',
    ],
    [
      'the children of an entity',
      async (tx: Tx) => await listEntities(tx, { filter: { parents: [top] }, sort: 'reference', ...page }),
      'entity_by_parent_number',
    ],
    [
      'the ancestors of an entity',
      async (tx: Tx) => await listAncestors(tx, { by: 'external-id', externalId: 'e99999' }),
      'entity_number_unique',
    ],
    [
      'two levels of entities below one that is far down the order',
      async (tx: Tx) =>
        await listEntities(tx, {
          filter: { within: { top: { by: 'external-id', externalId: 'e9' }, excludesTop: true, depth: 2 } },
          sort: 'tree',
          ...page,
        }),
      'entity_path_by_depth',
    ],
    [
      'the entities of a hierarchy',
      async (tx: Tx) =>
        await listEntities(tx, {
          filter: { hierarchy: { key: 'legal', node: undefined, isSmall: false } },
          sort: 'reference',
          ...page,
        }),
      'node_entity_by_entity',
      140,
    ],
    [
      'the entities of a hierarchy of ten among them',
      async (tx: Tx) =>
        await listEntities(tx, {
          filter: { hierarchy: { key: 'few', node: undefined, isSmall: true } },
          sort: 'name',
          ...page,
        }),
      'entity_pk',
      10,
    ],
    ['whether a hierarchy is small, of ten', async (tx: Tx) => await hasFewLinks(tx, 'few'), 'node_path_unique', 10],
    [
      'how many entities are of a hierarchy of ten',
      async (tx: Tx) => await countEntities(tx, { hierarchy: { key: 'few', node: undefined, isSmall: true } }),
      'entity_pk',
      10,
    ],
    [
      'the entities of the least node of a hierarchy',
      async (tx: Tx) =>
        await listEntities(tx, {
          filter: { hierarchy: { key: 'legal', node: { by: 'key', key: 'n9999' }, isSmall: false } },
          sort: 'reference',
          ...page,
        }),
      'node_path_unique',
    ],
    [
      'what is missing from its source',
      async (tx: Tx) => await listEntities(tx, { filter: { missing: true }, sort: 'reference', ...page }),
      'entity_missing',
    ],
    ['a page of the nodes of a subtree', listing({ top: far }), 'node_path_unique'],
    ['a page of the nodes of a version', listing({ top: far, asOf: { version: 1 } }), 'node_path_unique'],
    ['the first two levels of nodes', listing({ levels: 2 }), 'node_by_depth'],
    ['two levels of nodes below one', listing({ levels: 2, top: far }), 'node_by_depth'],
    ['two levels of nodes as they were', listing({ levels: 2, asOf: { version: 1 } }), 'node_by_depth'],
    [
      'two levels of nodes below one as they were',
      listing({ levels: 2, top: far, asOf: { version: 1 } }),
      'node_by_depth',
    ],
    ['nodes by name', listing({}, 'name'), 'node_by_name'],
    ['nodes by name, from the end', listing({}, '-name'), 'node_by_name'],
    ['nodes by name as they were', listing({ asOf: { version: 1 } }, 'name'), 'node_by_name'],
    ['nodes by key', listing({}, 'node_key'), 'node_key_unique'],
    ['nodes by key as they were, from the end', listing({ asOf: { version: 1 } }, '-node_key'), 'node_key_unique'],
    ['the first page of what differs', differences(undefined), 'node_by_change'],
    [
      'a page amid what differs',
      differences({ version: 1, id: '80000000-0000-7000-8000-000000000000' }),
      'node_by_change',
    ],
  ])(
    '%s is read from an index, no row is walked to, and none is read that is not shown',
    async (_what, work, index, rows = 110) => {
      const nodes = await explained(work)
      expect([...indexesOf(nodes)]).toContain(index)
      expect(kindsOf(nodes)).not.toContain('Seq Scan')
      expect(kindsOf(nodes)).not.toContain('Recursive Union')
      expect(rowsTouched(nodes)).toBeLessThanOrEqual(rows)
    },
  )

  test('as deep as was asked for, and no deeper, in the order of the tree', async () => {
    expect(await nodesOf('depth=1')).toHaveLength(10)
    const two = await nodesOf('depth=2')
    expect(two.slice(0, 2).map(({ depth }) => depth)).toEqual([1, 2])
    expect(two).toHaveLength(101)
    expect(new Set(two.map(({ depth }) => depth))).toEqual(new Set([1, 2]))
    const below = await nodesOf('depth=2&subtree_of=key:n9')
    expect([below[0], below.length]).toEqual([{ node_key: 'n9', depth: 1 }, 11])
    expect(await nodesOf('depth=2&subtree_of=key:n9&as_of=1')).toEqual(below)
    expect(await nodesOf('depth=2&subtree_of=key:nothing')).toEqual([])
    expect(await nodesOf('subtree_of=key:nothing')).toEqual([])
  })

  test('what a pushed hierarchy links is compared with the entities at once, not row by row', async () => {
    const nodes = Array.from({ length: 50 }, (_, n) => ({
      node_key: `p${n}`,
      name: 'Pushed',
      status: 'active' as const,
      entities: [1, 2, 3, 4, 5].map((at) => `e${n * 5 + at}`),
    }))
    const body = {
      run_id: crypto.randomUUID(),
      key: 'pushed',
      name: 'Pushed',
      kind: 'custom',
      mode: 'partial',
    } as const
    const statements: Statement[] = []
    const recorder: Tx = {
      query: async (statement) => {
        statements.push(statement)
        return []
      },
      execute: async (statement) => {
        statements.push(statement)
        return 0
      },
    }
    const read: number[] = []
    const undone = universe.asService.write(universe.assertionOf(tenant.tenantId), async (tx) => {
      const hierarchy = await openHierarchy(tx, { ...body, nodes }, { type: 'connector', id: 'c', label: 'l' })
      await stageNodes(tx, hierarchy, nodes)
      await listUnknownEntities(recorder, hierarchy)
      await applyNodes(recorder, hierarchy, nodes.length)
      for (const statement of statements) {
        const entities = (await planOf(tx, statement)).filter((node) => node['Relation Name'] === 'entity')
        read.push(rowsTouched(entities))
      }
      throw new Error('undone')
    })
    await expect(undone).rejects.toThrow('undone')
    // Of what is unknown and of what is inserted; nothing is updated.
    expect(read.filter((rows) => rows > 0).length).toBeGreaterThanOrEqual(2)
    expect(Math.max(...read)).toBeLessThanOrEqual(size)
  })

  test('a hierarchy is small or not, and one that is not there is small: nothing else is read for it', async () => {
    const assertion = universe.assertionOf(tenant.tenantId)
    const isSmall = async (key: string) => await universe.asService.read(assertion, async (tx) => hasFewLinks(tx, key))
    expect([await isSmall('few'), await isSmall('legal'), await isSmall('nothing')]).toEqual([true, false, true])
  })

  test('what is of a small hierarchy is listed in the order that is asked for, and counted', async () => {
    const target = `${path}?hierarchy=few&sort=-name&limit=4&count=true`
    const answer = await universe.gateway.call(tenant, 'GET', target)
    expect(answer.headers['x-total-count']).toBe('10')
    const last = ['e99999', 'e99998', 'e99997', 'e99996']
    expect(readEntities.parse(answer.json).map(({ external_id }) => external_id)).toEqual(last)
    const none = await universe.gateway.call(tenant, 'GET', `${path}?hierarchy=nothing&count=true`)
    expect([none.json, none.headers['x-total-count']]).toEqual([[], '0'])
  })

  test('control: a search for a text, which no index serves, reads every row', async () => {
    const nodes = await explained(
      async (tx) => await listEntities(tx, { filter: { search: 'nothing' }, sort: 'name', ...page }),
    )
    const read = nodes.filter((node) => node['Relation Name'] === 'entity')
    expect(read.some((node) => ['Seq Scan', 'Index Scan', 'Bitmap Heap Scan'].includes(node['Node Type']))).toBe(true)
  })

  test('a subtree is what hangs below its top', async () => {
    const answer = await universe.gateway.call(tenant, 'GET', `${path}?subtree_of=ext:e3&limit=1000&count=true`)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers['x-total-count']).toBe(String(1 + 10 + 100 + 1000 + 10_000))
    const numbers = readEntities.parse(answer.json).map(({ external_id }) => Number(external_id?.slice(1)))
    const isBelow = (n: number): boolean => n === 3 || (n > 10 && isBelow(Math.floor((n + 8) / 10)))
    expect(numbers).toHaveLength(1000)
    expect(numbers.every(isBelow)).toBe(true)
  })

  test('an entity that moves takes its subtree with it, and nothing else is written', async () => {
    const pushed = await universe.push(tenant, [
      { external_id: 'e25', name: 'Moved', type: 'process', parent_external_id: 'e4' },
    ])
    expect(pushed.json).toEqual({ created: 0, updated: 1, unchanged: 0 })
    const count = async (key: string) =>
      (await universe.gateway.call(tenant, 'GET', `${path}?subtree_of=ext:${key}&limit=1&count=true`)).headers[
        'x-total-count'
      ]
    expect([await count('e25'), await count('e4'), await count('e3')]).toEqual(['1111', '12222', '10000'])
  })
})
