import { randomUUID } from 'node:crypto'
import { type TestDatabase, createTestDatabase } from '@postern/local-stack/testing'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { Client, DatabaseError } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { forbiddenStatements } from '../support/hostile-sql.ts'
import { type TenantTable, fillWithMarkedRows } from '../support/marked-rows.ts'

// Somebody runs SQL of his own with the password of a service, and has the assertion of one tenant: A. Every table that
// has tenants holds one row of A and one of B.
const roles = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const
const tenantA = randomUUID()
const tenantB = randomUUID()
const markA = 'mark-of-alpha'
const markB = 'mark-of-beta'

let database: TestDatabase
let tables: readonly TenantTable[]
const clients = new Map<string, Client>()

beforeAll(async () => {
  database = await createTestDatabase()
  for (const role of [...roles, 'superuser'] as const) {
    const client = new Client({ connectionString: database.url(role), pipeline: true })
    await client.connect()
    clients.set(role, client)
  }
  tables = await fillWithMarkedRows(
    clientOf('superuser'),
    new Map([
      [tenantA, markA],
      [tenantB, markB],
    ]),
  )
})

afterAll(async () => {
  for (const client of clients.values()) await client.end()
  await database.drop()
})

function clientOf(role: string): Client {
  const client = clients.get(role)
  if (client === undefined) throw new Error(`there is no ${role}`)
  return client
}

interface Outcome {
  readonly text: string
  /** SQLSTATE, or 'done'. */
  readonly state: string
  /** How many rows, where it was done. */
  readonly count: number
  /** All that came back: rows, messages, details. */
  readonly said: string
}

function assertionOf(tenant: string, at = Date.now()): string {
  return mintAssertion(parseKeyRing(database.assertionKeys), tenant, at)
}

/** Tries statements under the assertion of a tenant, if one is given. */
async function attempt(role: string, tenant: string | undefined, texts: readonly string[]): Promise<Outcome[]> {
  return await attemptWith(role, tenant === undefined ? '' : assertionOf(tenant), texts)
}

/** Tries statements one by one, and undoes each. They leave together. */
async function attemptWith(role: string, assertion: string, texts: readonly string[]): Promise<Outcome[]> {
  const client = clientOf(role)
  const ran: Promise<unknown>[] = [client.query('begin')]
  ran.push(client.query("select set_config('postern.assertion', $1, true)", [assertion]))
  const outcomes = texts.map(async (text) => {
    ran.push(client.query('savepoint before'))
    const outcome = client.query(text.replace('%DATABASE%', database.name)).then(
      ({ rows, rowCount }) => ({ text, state: 'done', count: rowCount ?? 0, said: JSON.stringify(rows) }),
      (error: unknown) => {
        if (!(error instanceof DatabaseError)) throw error
        const { code = '', message, detail, hint, where } = error
        return { text, state: code, count: 0, said: [message, detail, hint, where].join('\n') }
      },
    )
    ran.push(client.query('rollback to savepoint before'))
    return await outcome
  })
  ran.push(client.query('rollback'), client.query('reset session authorization; reset role'))
  await Promise.all(ran)
  return await Promise.all(outcomes)
}

/** Assertions that are none, by what is wrong with them. */
const falseAssertions: Readonly<Record<string, () => string>> = {
  'a forged assertion, one bit of whose MAC is another': () => {
    const parts = assertionOf(tenantA).split('.')
    const mac = Buffer.from(parts.at(-1) ?? '', 'base64url')
    mac.writeUInt8(mac.readUInt8(0) ^ 1, 0)
    return [...parts.slice(0, -1), mac.toString('base64url')].join('.')
  },
  'an expired assertion': () => assertionOf(tenantA, Date.now() - 600_000),
  "a swapped assertion: one tenant's, under another's MAC": () => {
    const at = Date.now()
    return [...assertionOf(tenantA, at).split('.').slice(0, -1), assertionOf(tenantB, at).split('.').at(-1)].join('.')
  },
}

describe.each(roles)('whoever has the role of the service %s', (role) => {
  test('can do nothing that a service never does', async () => {
    const outcomes = await attempt(
      role,
      tenantA,
      forbiddenStatements.map(({ text }) => text),
    )
    expect(outcomes.filter(({ state }) => state !== '42501')).toEqual([])
    expect(outcomes).toHaveLength(forbiddenStatements.length)
  })

  test('gets no row of another tenant out of any table of any service, in whatever way it asks', async () => {
    const seen = new Set<string>()
    const asked = tables.flatMap(({ full, schema }) => {
      const isOpen = schema === role || schema === 'tenancy'
      // Into the schemas of other services it does not get at all, in whatever way.
      return waysToRead(full).flatMap((asking, at) => (isOpen || at === 0 ? [{ ...asking, isOpen }] : []))
    })
    const outcomes = await attempt(
      role,
      tenantA,
      asked.map(({ text }) => text),
    )
    for (const [at, { text, state, count, said }] of outcomes.entries()) {
      expect(said, text).not.toContain(markB)
      expect(said, text).not.toContain(tenantB)
      // 22012 or 22P02 would say that a condition has met a row of B.
      expect(asked[at]?.isOpen === true ? ['done', '42501'] : ['42501'], `${text}: ${said}`).toContain(state)
      if (state === 'done' && count > 0) seen.add(asked[at]?.way ?? '')
    }
    // The control: each way does show one's own rows.
    expect(seen).toEqual(new Set(waysToRead('').flatMap(({ way, shows }) => (shows === 'rows' ? [way] : []))))
  })

  test('gets nothing at all without the assertion of a tenant', async () => {
    const outcomes = await attempt(
      role,
      undefined,
      tables.map(({ full }) => `select * from ${full}`),
    )
    expect(outcomes.filter(({ state }) => state !== '28000' && state !== '42501')).toEqual([])
    expect(outcomes.some(({ state }) => state === '28000')).toBe(true)
  })

  test.each(Object.keys(falseAssertions))(
    'gets nothing, and changes nothing, with %s, in any table and with any statement',
    async (kind) => {
      const statements = tables.flatMap(({ full }) => [
        `select * from ${full}`,
        `update ${full} set tenant_id = tenant_id`,
        `delete from ${full}`,
        `insert into ${full} (tenant_id) values ('${tenantA}')`,
      ])
      const outcomes = await attemptWith(role, falseAssertions[kind]?.() ?? '', statements)
      expect(outcomes.filter(({ state }) => state !== '28000' && state !== '42501')).toEqual([])
      for (const { said, text } of outcomes) expect(said, text).not.toMatch(`${markA}|${markB}`)
      // The control: what only the assertion has stopped, the right one lets through, and it sees its row.
      const stopped = outcomes.filter(({ state }) => state === '28000').map(({ text }) => text)
      const right = await attemptWith(role, assertionOf(tenantA), stopped)
      expect(right.filter(({ state }) => state === '28000' || state === '42501')).toEqual([])
      const reads = right.filter(({ text }) => text.startsWith('select'))
      expect(reads.filter(({ count, said }) => count !== 1 || !said.includes(tenantA))).toEqual([])
      for (const verb of ['select', 'update', 'insert']) {
        expect(
          stopped.some((text) => text.startsWith(verb)),
          verb,
        ).toBe(true)
      }
    },
  )

  test('changes, removes and locks no row of another tenant', async () => {
    const touching = tables.flatMap(({ full }) => [
      `update ${full} set tenant_id = tenant_id where tenant_id = '${tenantB}'`,
      `delete from ${full} where tenant_id = '${tenantB}'`,
      `select from ${full} where tenant_id = '${tenantB}' for update`,
      `merge into ${full} as t using (values (1)) as s on t.tenant_id = '${tenantB}' when matched then delete`,
    ])
    const asA = await attempt(role, tenantA, touching)
    expect(asA.filter(({ state, count }) => count !== 0 || (state !== 'done' && state !== '42501'))).toEqual([])
    // The control: B itself could do some of it.
    const asB = await attempt(role, tenantB, touching)
    expect(asB.some(({ count }) => count === 1)).toBe(true)
  })

  test('plants no row for another tenant, and gives it none', async () => {
    const planting = tables.map(({ full }) => `insert into ${full} (tenant_id) values ('${tenantB}')`)
    const asA = await attempt(role, tenantA, planting)
    // A trigger of the log looks before the policy: the entry continues no log of A's.
    const refusals = asA.map(({ text, state }) =>
      text.includes('"tracker_log"') && state === '23514' ? '42501' : state,
    )
    expect(new Set(refusals)).toEqual(new Set(['42501']))
    // The control: B itself is let through, and told what else the row lacks.
    const asB = await attempt(role, tenantB, planting)
    expect(asB.some(({ state }) => state === '23502')).toBe(true)
    const giving = tables.map(({ full }) => `update ${full} set tenant_id = '${tenantB}'`)
    // Some are refused by a trigger before the policy looks.
    const given = await attempt(role, tenantA, giving)
    expect(given.filter(({ state }) => !['42501', '23514', '55000'].includes(state))).toEqual([])
  })

  test('may call no function with rights over all tenants but those that are meant for it', async () => {
    const { rows } = await clientOf(role).query<{ name: string }>(
      `select n.nspname || '.' || p.proname as name
         from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
        where p.prosecdef and p.prorettype <> 'trigger'::regtype and has_function_privilege(p.oid, 'execute')
          and has_schema_privilege(n.oid, 'usage')
        order by 1`,
    )
    const names = rows.map(({ name }) => name)
    expect(names).toContain('tenancy.tenant_id')
    expect(names.filter((name) => !meantFor[role].test(name))).toEqual([])
  })
})

/** Which ones they are, and why, test/repository/catalog.test.ts says. */
const meantFor = {
  keys: /^keys\.|^tenancy\.(?:tenant_id|assert_operator|note_suspension)$/,
  findings: /^tenancy\.tenant_id$/,
  universe: /^tenancy\.tenant_id$/,
  evidence: /^tenancy\.tenant_id$/,
  sync: /^tenancy\.(?:tenant_id|hold_work|issue_for_run|is_work_suspended)$/,
} as const

interface Way {
  readonly way: string
  readonly text: string
  /** What it shows to whoever may see the row: it, or an error that tells of it. */
  readonly shows: 'rows' | 'theirs' | '22012' | '22P02'
}

/** Ways to ask a table for its rows. */
function waysToRead(table: string): readonly Way[] {
  const isTheirs = `tenant_id = '${tenantB}'`
  const asking = (way: string, text: string, shows: Way['shows'] = 'rows'): Way => ({ way, text, shows })
  return [
    asking('all columns', `select * from ${table}`),
    asking('as JSON', `select to_jsonb(t) from ${table} as t`),
    asking('as whole rows', `select t from ${table} as t`),
    asking('with a condition that is always true', `select * from ${table} where ${isTheirs} or true`),
    asking('theirs first', `select * from ${table} order by (${isTheirs}) desc limit 1`),
    asking('a sample', `select * from ${table} tablesample system (100)`),
    asking('as XML, by a function that runs text', `select query_to_xml('select * from ${table}', true, false, '')`),
    asking('by tenant', `select tenant_id, count(*) from ${table} group by tenant_id`),
    asking('joined', `select a.*, b.* from ${table} as a full join ${table} as b on a.tenant_id = b.tenant_id`),
    asking('from a condition', `select 1 where exists (select from ${table})`),
    asking('copied out', `copy (select * from ${table}) to stdout`),
    asking('by tenant id', `select * from ${table} where ${isTheirs}`, 'theirs'),
    asking('by an aggregate', `select 1 from ${table} having bool_or(${isTheirs})`, 'theirs'),
    asking('by a failing condition', `select 1 from ${table} where 1 / (1 - (${isTheirs})::integer) = 0`, '22012'),
    asking('by a telling function', `select 1 from ${table} as t where ${isTheirs} and t::text::integer > 0`, '22P02'),
  ]
}

test('the control: each of those ways shows rows of B, or tells of them, where nothing protects them', async () => {
  const [{ full } = { full: '' }] = tables
  const ways = waysToRead(full)
  const outcomes = await attempt(
    'superuser',
    undefined,
    ways.map(({ text }) => text),
  )
  for (const [at, { text, state, count }] of outcomes.entries()) {
    const shows = ways[at]?.shows
    if (shows === 'rows' || shows === 'theirs') expect([text, count > 0]).toEqual([text, true])
    else expect([text, state]).toEqual([text, shows])
  }
})

test('the control: what is forbidden is right, and done for who may do it', async () => {
  const right = forbiddenStatements.filter(({ uncontrolled }) => uncontrolled !== true)
  const outcomes = await attempt(
    'superuser',
    undefined,
    right.map(({ text }) => text),
  )
  expect(outcomes.filter(({ state }) => state !== 'done')).toEqual([])
})

test('all tables are read', () => {
  expect(new Set(tables.map(({ schema }) => schema))).toEqual(
    new Set(['evidence', 'findings', 'keys', 'sync', 'tenancy', 'universe']),
  )
  expect(tables.length).toBeGreaterThan(40)
})
