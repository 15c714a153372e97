/**
 * @promise Tenants: A service sees only the rows of the tenant in its assertion, whatever SQL it runs.
 */

import { randomUUID } from 'node:crypto'
import { type TestDatabase, createTestDatabase } from '@postern/local-stack/testing'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Probe, type Probes, type Version, findProbes } from '../support/constraint-probes.ts'
import { findDefinerFunctions, fooledState, plantHostileSchema } from '../support/hostile-search-path.ts'
import { forbiddenStatements } from '../support/hostile-sql.ts'
import { type TenantTable, fillWithMarkedRows } from '../support/marked-rows.ts'
import { type Outcome, attemptOn, mayTell, stoppedBefore, told, waysToRead } from '../support/role-attempts.ts'

// An attacker runs SQL with the password of a service and the assertion of tenant A. Every tenant table has one row of A
// and one of B.
const roles = ['keys', 'findings', 'universe', 'evidence', 'sync'] as const
const tenantA = randomUUID()
const tenantB = randomUUID()
const markA = 'mark-of-alpha'
const markB = 'mark-of-beta'

let database: TestDatabase
let tables: readonly TenantTable[]
let probes: readonly Probe[]
let unasked: Probes['unasked']
const clients = new Map<string, Client>()

beforeAll(async () => {
  database = await createTestDatabase({ hasShippedLimits: true })
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
  ;({ probes, unasked } = await findProbes(clientOf('superuser'), tables, { own: tenantA, other: tenantB }))
  await clientOf('superuser').query('analyze')
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

function assertionOf(tenant: string, at = Date.now()): string {
  return mintAssertion(parseKeyRing(database.assertionKeys), tenant, at)
}

/** Runs statements with the assertion of a tenant, if given. */
async function attempt(
  role: string,
  tenant: string | undefined,
  texts: readonly string[],
  searchPath?: string,
): Promise<Outcome[]> {
  return await attemptWith(role, tenant === undefined ? '' : assertionOf(tenant), texts, searchPath)
}

async function attemptWith(
  role: string,
  assertion: string,
  texts: readonly string[],
  searchPath?: string,
): Promise<Outcome[]> {
  return await attemptOn(clientOf(role), assertion, texts, { database: database.name, searchPath })
}

/** Invalid assertions by their error. */
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

describe.each(roles)('an attacker with the database role of the service %s', (role) => {
  test('cannot do what a service never does', async () => {
    const outcomes = await attempt(
      role,
      tenantA,
      forbiddenStatements.map(({ text }) => text),
    )
    expect(outcomes.filter(({ state }) => state !== '42501')).toEqual([])
    expect(outcomes).toHaveLength(forbiddenStatements.length)
  })

  test('cannot read a row of another tenant from any table', async () => {
    const seen = new Set<string>()
    const asked = tables.flatMap(({ full, schema }) => {
      const isOpen = schema === role || schema === 'tenancy'
      // Into the schemas of other services it does not get at all, in whatever way.
      return waysToRead(full, tenantB).flatMap((asking, at) => (isOpen || at === 0 ? [{ ...asking, isOpen }] : []))
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
    // The control: each statement does return own rows.
    expect(seen).toEqual(new Set(waysToRead('', tenantB).flatMap(({ way, shows }) => (shows === 'rows' ? [way] : []))))
  })

  test('cannot read any row without the assertion of a tenant', async () => {
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
      // The control: with a valid assertion the same statement returns its row.
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

  test('cannot change, delete or lock a row of another tenant', async () => {
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

  test('cannot insert a row for another tenant or move one to it', async () => {
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
    // A trigger rejects some of them before the policy applies.
    const given = await attempt(role, tenantA, giving)
    expect(given.filter(({ state }) => !['42501', '23514', '55000'].includes(state))).toEqual([])
  })

  test('cannot copy rows into a table for any tenant', async () => {
    const copying = tables.flatMap(({ full }) => [
      `copy ${full} from stdin`,
      `copy ${full} (tenant_id) from stdin with (format csv)`,
    ])
    const asA = await attempt(role, tenantA, copying)
    // PostgreSQL does not support COPY into tables with row-level security.
    expect(asA.filter(({ state }) => state !== '42501' && state !== '0A000')).toEqual([])
    expect(asA.some(({ state }) => state === '0A000')).toBe(true)
  })

  test('cannot learn from a constraint whether another tenant has a value', async () => {
    const asked = probes.filter(({ schema }) => schema === role || schema === 'tenancy')
    const ask = async (versionOf: (probe: Probe) => Version) => {
      const versions = asked.map(versionOf)
      const texts = versions.map(({ text }) => text)
      const outcomes = await attempt(role, tenantA, texts)
      return { outcomes, told: outcomes.map((outcome, at) => told(outcome, versions[at]?.values ?? [])) }
    }
    const { told: ofOther } = await ask((probe) => probe.ofOther)
    const { told: ofNobody, outcomes: nobodys } = await ask((probe) => probe.ofNobody)
    const { outcomes: owns } = await ask((probe) => probe.ofOwn)
    const telling = asked.filter((_probe, at) => ofOther[at] !== ofNobody[at])
    expect(telling.map(({ constraint }) => constraint).filter((name) => !mayTell.has(name))).toEqual([])
    for (const text of ofOther) expect(text).not.toMatch(`${markB}|${tenantB}`)
    // The control: each constraint does tell what is so of one's own, in one of the ways to ask it that the role has.
    const speaking = asked.map(({ constraint, kind }, at) => {
      const outcome = kind === 'unique' ? owns[at] : nobodys[at]
      const isDenied = outcome?.state === '42501' && outcome.said.startsWith('permission denied')
      const isNamed = outcome?.said.includes(`"${constraint.split('.').at(-1)}"`) === true
      const isTold = isNamed && outcome?.state === (kind === 'unique' ? '23505' : '23503')
      return { constraint, isDenied, isTold, said: outcome?.said }
    })
    const silent = [...Map.groupBy(speaking, ({ constraint }) => constraint)].filter(
      ([, ways]) => !ways.some(({ isTold }) => isTold) && !ways.every(({ isDenied }) => isDenied),
    )
    expect(silent.filter(([name]) => !Object.hasOwn(stoppedBefore, name))).toEqual([])
    // No exception is unnecessary.
    const excused = asked.filter(
      ({ schema, constraint }) => schema === role && Object.hasOwn(stoppedBefore, constraint),
    )
    const unheard = new Set(silent.map(([name]) => name))
    expect(excused.filter(({ constraint }) => !unheard.has(constraint))).toEqual([])
    expect(speaking.some(({ isTold }) => isTold)).toBe(true)
  })

  test('cannot read values of another tenant in statistics', async () => {
    const outcomes = await attempt(role, tenantA, statistics)
    for (const { state, said, text } of outcomes) {
      expect(['done', '42501'], text).toContain(state)
      expect(said, text).not.toMatch(`${markB}|${tenantB}`)
    }
  })

  test('can call only its own functions with rights over all tenants', async () => {
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
  keys: /^keys\.|^tenancy\.(?:tenant_id|assert_operator|note_suspension|sequence_audit_events|maintain_audit_events)$/,
  findings: /^tenancy\.(?:tenant_id|sequence_changes)$|^findings\.note_overdue$/,
  universe: /^tenancy\.tenant_id$/,
  evidence: /^tenancy\.tenant_id$|^evidence\.(?:blob_is_recorded|upload_is_open)$/,
  sync: /^tenancy\.(?:tenant_id|sequence_changes|hold_work|issue_for_run|is_work_suspended)$|^keys\.find_key_to_notify$/,
} as const

const statistics = ['pg_stats', 'pg_stats_ext', 'pg_stats_ext_exprs'].map((view) => `select * from ${view}`)

test('control: without protection, each attack reveals rows of tenant B', async () => {
  const [{ full } = { full: '' }] = tables
  const ways = waysToRead(full, tenantB)
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

test('control: the forbidden statements are valid for a role that may run them', async () => {
  const right = forbiddenStatements.filter(({ uncontrolled }) => uncontrolled !== true)
  const outcomes = await attempt(
    'superuser',
    undefined,
    right.map(({ text }) => text),
  )
  expect(outcomes.filter(({ state }) => state !== 'done')).toEqual([])
})

test('control: without protection, a table accepts copied rows', async () => {
  const client = new Client({ connectionString: database.url('superuser') })
  await client.connect()
  try {
    for (const { full } of tables) {
      // It waits for rows, and is given none.
      await expect(client.query(`copy ${full} from stdin`)).rejects.toMatchObject({ code: '57014' })
    }
  } finally {
    await client.end()
  }
})

test('partial and expression indexes are tested too', () => {
  expect(new Set(probes.flatMap(({ constraint, isPartial }) => (isPartial ? constraint : [])))).toEqual(
    new Set([
      'evidence.file_decision_one_verdict',
      'evidence.upload_piece_one_open',
      'sync.run_one_a_connector',
      'sync.scim_group_display_name',
      'sync.scim_user_external_id',
      'sync.scim_user_person_key',
      'sync.scim_user_user_name',
      'tenancy.change_batch_open',
      'universe.hierarchy_one_primary',
    ]),
  )
})

test('only constraints that reveal nothing about other tenants are left out', () => {
  expect(unasked).toEqual({
    'no tenant': [
      'keys.expired_scan_pk',
      'keys.gateway_lease_pk',
      'keys.github_report_pk',
      'keys.revocation_seq_pk',
      'keys.route_pk',
      'keys.usage_watch_pk',
      'postern_meta.migration_pk',
      'tenancy.assertion_secret_pk',
    ],
    'one row a tenant': [
      'evidence.policy_pk',
      'evidence.tenant_usage_pk',
      'findings.log_end_pk',
      'api_key_tenant_fk',
      'keys.expiry_scan_pk',
      'key_policy_event_tenant_fk',
      'member_tenant_fk',
      'keys.policy_review_pk',
      'policy_review_tenant_fk',
      'sign_in_tenant_fk',
      'keys.tenant_pk',
      'tenant_event_tenant_fk',
      'sync.webhook_feed_pk',
      'tenancy.audit_head_pk',
      'tenancy.change_head_pk',
      'tenancy.event_reader_pk',
      'tenancy.suspended_tenant_pk',
      'universe.reference_counter_pk',
      'universe.test_procedure_counter_pk',
    ],
    'target has no tenant': [],
    // A day, and what is made of a number whose own index is asked.
    'same for both': [
      'findings.action_plan_reference_unique',
      'findings.finding_reference_unique',
      'findings.log_checkpoint_pk',
      'universe.entity_reference_unique',
      'universe.test_procedure_reference_unique',
    ],
  })
  const names = new Set(probes.map(({ constraint }) => constraint))
  expect(Object.keys(stoppedBefore).filter((name) => !names.has(name))).toEqual([])
})

test('every table is tested', () => {
  expect(new Set(tables.map(({ schema }) => schema))).toEqual(
    new Set(['evidence', 'findings', 'keys', 'sync', 'tenancy', 'universe']),
  )
  expect(tables.length).toBeGreaterThan(40)
})

test('control: statistics contain values of tenant B for a role that can read them', async () => {
  const [{ said } = { said: '' }] = await attempt('superuser', undefined, statistics)
  expect(said).toContain(markB)
})

const isCareless = (text: string): boolean => text.includes('hostile.careless')
const stateOf = ({ text, state }: Outcome): string => `${state} ${text}`

test('no function with rights over all tenants depends on the search_path of its caller', async () => {
  const superuser = clientOf('superuser')
  expect(await plantHostileSchema(superuser)).toBeGreaterThan(20)
  try {
    const functions = await findDefinerFunctions(superuser)
    expect(functions.length).toBeGreaterThan(10)
    const calls = functions.map(({ call }) => call)
    for (const role of roles) {
      const usual = await attempt(role, tenantA, calls)
      const hostile = await attempt(role, tenantA, calls, 'hostile, pg_catalog')
      expect(hostile.filter(({ text, state }) => state === fooledState && !isCareless(text))).toEqual([])
      expect(hostile.map(stateOf).filter((text) => !isCareless(text))).toEqual(
        usual.map(stateOf).filter((text) => !isCareless(text)),
      )
      // The control: one that leaves its search_path to the caller is fooled, and works where it is not.
      const control = (outcomes: readonly Outcome[]) => outcomes.find(({ text }) => isCareless(text))?.state
      expect([role, control(usual), control(hostile)]).toEqual([role, 'done', fooledState])
    }
  } finally {
    await superuser.query('drop schema hostile cascade')
  }
})
