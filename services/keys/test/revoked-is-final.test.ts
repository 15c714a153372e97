/**
 * @promise Revocation: A revoked key can never become active again, whatever SQL the keys service runs.
 */

import { expandScopes, namedScopes, wildcardScopes, isNarrowerOrEqual } from '@postern/api-key'
import { type TenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isNarrowerOrEqualList } from '../src/api-key/addresses.ts'
import { type KeysUnderTest, failureOf, getKey, lookUp, newKey, newTenant, revoke, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

async function aRevokedKey() {
  const admin = await newTenant(service)
  const key = await newKey(service, admin)
  await revoke(service, admin, key.id, { reason: 'leaked' })
  return { admin, key }
}

async function rowOf(id: string) {
  const rows = await service.asSuperuser.system(
    async (tx) => await tx.query(sql('select to_jsonb(k) as row from keys.api_key as k where id = $1', id)),
  )
  return rows[0]?.['row']
}

const asTenant = (tenantId: string): Pick<TenantDb, 'system'> => ({
  system: async (work) => await service.asService.write(service.assertionOf(tenantId), work),
})

describe('PostgreSQL rejects every reactivation of a revoked key', () => {
  // Each as the service's role and as the superuser, who bypasses grants and policies.
  test.each([
    [
      'taking the revocation back',
      `update keys.api_key set revoked_at = null, revoked_by_type = null, revoked_by_id = null, revoked_by_label = null, revoke_reason = null where id = $1`,
    ],
    ['taking its time back', 'update keys.api_key set revoked_at = null where id = $1'],
    ['moving it to the future', `update keys.api_key set revoked_at = now() + interval '1 year' where id = $1`],
    ['changing who did it', `update keys.api_key set revoked_by_id = 'eve' where id = $1`],
    ['changing why', `update keys.api_key set revoke_reason = 'none' where id = $1`],
    ['a later expiry', `update keys.api_key set expires_at = expires_at + interval '1 day' where id = $1`],
    ['an earlier expiry', `update keys.api_key set expires_at = expires_at - interval '1 day' where id = $1`],
    ['another label', `update keys.api_key set label = 'x' where id = $1`],
    ['other scopes', `update keys.api_key set scopes = '{*}' where id = $1`],
    ['another hash', `update keys.api_key set hash = sha256('x') where id = $1`],
    ['another tenant', `update keys.api_key set tenant_id = uuidv7() where id = $1`],
    ['another id', `update keys.api_key set id = uuidv7() where id = $1`],
    ['a new creation', `update keys.api_key set created_at = now() where id = $1`],
    ['deleting it', 'delete from keys.api_key where id = $1'],
    [
      'merging over it',
      `merge into keys.api_key as k using (values ($1::uuid)) as v (id) on k.id = v.id when matched then update set label = 'x'`,
    ],
    [
      'inserting over it',
      `insert into keys.api_key (tenant_id, id, hash, last_four, label, scopes, created_by_type, created_by_id, created_by_label, expires_at)
       select tenant_id, id, hash, last_four, label, scopes, 'user', 'x', '', now() + interval '1 day' from keys.api_key where id = $1
           on conflict (hash) do update set revoked_at = null, revoked_by_type = null, revoked_by_id = null, revoked_by_label = null, revoke_reason = null`,
    ],
    ['renaming the row away by its hash', `update keys.api_key set hash = sha256(hash) where id = $1`],
  ])('%s', async (_what, statement) => {
    const { admin, key } = await aRevokedKey()
    const before = await rowOf(key.id)
    for (const db of [asTenant(admin.tenantId), service.asSuperuser]) {
      const failure = await failureOf(db.system(async (tx) => await tx.execute(sql(statement, key.id))))
      expect(['check', 'rls', 'other']).toContain(failure?.kind)
    }
    expect(await rowOf(key.id)).toEqual(before)
    expect(await getKey(service, admin, key.id)).toMatchObject({ state: 'revoked' })
  })

  test('emptying the table', async () => {
    const { admin, key } = await aRevokedKey()
    for (const db of [asTenant(admin.tenantId), service.asSuperuser]) {
      expect(
        await failureOf(db.system(async (tx) => await tx.execute(sql('truncate keys.api_key cascade')))),
      ).toBeDefined()
    }
    expect((await lookUp(service, key.hash)).record).toMatchObject({ revoked: true })
  })

  test('usage reports after the revocation change only the last use', async () => {
    const { admin, key } = await aRevokedKey()
    const before = await rowOf(key.id)
    const lastUsedAt = Date.parse(key.created_at) + 1
    const use = {
      keyId: key.id,
      tenantId: admin.tenantId,
      address: '192.0.2.1',
      lastUsedAt,
      count: 1,
      routes: { 'findings.list': 1 },
    }
    const stranger = { ...use, keyId: crypto.randomUUID() }
    expect((await service.ask('/internal/v1/usage', { uses: [use, stranger], denials: [] })).status).toBe(204)
    expect(await rowOf(key.id)).toEqual({ ...Object(before), last_used_at: expect.any(String) })
    expect(await getKey(service, admin, key.id)).toMatchObject({ state: 'revoked', version: 2 })
    expect(await rowOf(stranger.keyId)).toBeUndefined()
  })

  test('functions across tenants can revoke a key, end it earlier, and change its last use and last denial, and nothing else', async () => {
    const rows = await service.asSuperuser.system(
      async (tx) =>
        await tx.query(
          sql(`
            select t.attname as column
              from pg_attribute as t
              join pg_class as c on c.oid = t.attrelid
             cross join aclexplode(t.attacl) as x
             where c.oid = 'keys.api_key'::regclass and x.grantee = 'postern_keys_definer'::regrole
            union all
            select '*' from pg_class as c cross join aclexplode(c.relacl) as x
             where c.oid = 'keys.api_key'::regclass and x.grantee = 'postern_keys_definer'::regrole
               and x.privilege_type <> 'SELECT'`),
        ),
    )
    expect(rows.map(({ column }) => column)).toEqual([
      // Only to an earlier time: see the rejected widenings below.
      'expires_at',
      'revoked_at',
      'revoked_by_type',
      'revoked_by_id',
      'revoked_by_label',
      'revoke_reason',
      'last_used_at',
      'last_refused_at',
    ])
  })
})

describe('PostgreSQL rejects the widening of an active key by any role', () => {
  test.each([
    ['a later expiry', `expires_at = expires_at + interval '1 second'`],
    ['a scope more', `scopes = scopes || '{read:universe}'`],
    ['a wildcard', `scopes = '{read:*}'`],
    ['no scopes', `scopes = '{}'`],
    ['a null among its scopes', `scopes = scopes || array[null::text]`],
    ['no addresses', `allowed_addresses = '{}'`],
    ['another address', `allowed_addresses = allowed_addresses || '198.51.100.0/24'::cidr`],
    ['a wider range', `allowed_addresses = '{203.0.0.0/16}'`],
    ['a last use that goes back', 'last_used_at = null'],
    ['a last refusal that goes back', 'last_refused_at = null'],
    ['half a revocation', 'revoked_at = now()'],
    ['another successor', 'rotated_from = id'],
  ])('%s', async (_what, assignment) => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin, { allowed_addresses: ['203.0.113.0/24'] })
    await service.asSuperuser.system(
      async (tx) =>
        await tx.execute(
          sql('update keys.api_key set last_used_at = now(), last_refused_at = now() where id = $1', id),
        ),
    )
    const before = await rowOf(id)
    for (const db of [asTenant(admin.tenantId), service.asSuperuser]) {
      const failure = await failureOf(
        db.system(async (tx) => await tx.execute(sql(`update keys.api_key set ${assignment} where id = $1`, id))),
      )
      expect(['check', 'rls']).toContain(failure?.kind)
    }
    expect(await rowOf(id)).toEqual(before)
  })

  test('PostgreSQL accepts a narrowing, increments the version and writes the log', async () => {
    const admin = await newTenant(service)
    const { id, hash } = await newKey(service, admin, { scopes: ['read:*'], allowed_addresses: ['203.0.113.0/24'] })
    await asTenant(admin.tenantId).system(
      async (tx) =>
        await tx.execute(
          sql(
            `update keys.api_key
                set scopes = '{read:findings}', allowed_addresses = '{203.0.113.7}', expires_at = expires_at - interval '1 day'
              where id = $1`,
            id,
          ),
        ),
    )
    expect(await getKey(service, admin, id)).toMatchObject({
      version: 2,
      scopes: ['read:findings'],
      allowed_addresses: ['203.0.113.7/32'],
    })
    const log = await service.asSuperuser.system(
      async (tx) =>
        await tx.query(sql(`select version, revoked from keys.revocation where hash = decode($1, 'hex')`, hash)),
    )
    expect(log).toEqual([{ version: 2, revoked: false }])
  })

  test.each([
    [
      'already revoked',
      { revoked_at: 'now()', revoked_by_type: `'user'`, revoked_by_id: `'x'`, revoked_by_label: `''` },
    ],
    ['already used', { last_used_at: 'now()' }],
    ['already refused', { last_refused_at: 'now()' }],
    ['of a later version', { version: '7' }],
    ['from the future', { created_at: `now() + interval '1 hour'` }],
    ['that lives longer than the tenant allows', { expires_at: `now() + interval '6 years'` }],
    ['without scopes', { scopes: `'{}'` }],
    ['with an unknown scope', { scopes: `'{read:everything}'` }],
  ])('and rejects a new key %s', async (_what, wrong) => {
    const { tenantId } = await newTenant(service)
    const insert = (given: object) => {
      const columns = Object.entries({ scopes: `'{*}'`, expires_at: `now() + interval '1 day'`, ...given })
      return sql(
        `insert into keys.api_key (tenant_id, hash, last_four, label, created_by_type, created_by_id, created_by_label,
                                   ${columns.map(([name]) => name).join(', ')})
         values ($1, sha256(uuid_send(uuidv7())), 'abcd', 'x', 'user', 'x', '',
                 ${columns.map(([, value]) => value).join(', ')})`,
        tenantId,
      )
    }
    const asKeys = asTenant(tenantId)
    const refused = asKeys.system(async (tx) => await tx.execute(insert(wrong)))
    expect(await failureOf(refused)).toMatchObject({ kind: 'check' })
    expect(await asKeys.system(async (tx) => await tx.execute(insert({})))).toBe(1)
  })
})

describe('PostgreSQL and the service agree', () => {
  const grants = [...namedScopes, ...wildcardScopes]

  test('on what every scope covers', async () => {
    const rows = await service.asSuperuser.system(
      async (tx) =>
        await tx.query<{ granted: string; scope: string; covers: boolean }>(
          sql(
            `select g.scope as granted, s.scope, keys.covers_scope(array[g.scope], s.scope) as covers
               from unnest($1::text[]) as g (scope) cross join unnest($1::text[]) as s (scope)`,
            grants,
          ),
        ),
    )
    expect(rows).toHaveLength(grants.length ** 2)
    for (const { granted, scope, covers } of rows) expect(covers).toBe(isNarrowerOrEqual([scope], [granted]))
    expect(expandScopes(['*']).size).toBe(namedScopes.length)
  })

  test('on whether an address list is narrower', async () => {
    const ranges = [
      '0.0.0.0/0',
      '203.0.113.0/24',
      '203.0.113.7/32',
      '203.0.112.0/23',
      '::/0',
      '2001:db8::/32',
      '2001:db8:1::/48',
    ]
    const lists = [[], ...ranges.map((range) => [range]), ['203.0.113.7/32', '2001:db8::/32'], ['0.0.0.0/0', '::/0']]
    const pairs = lists.flatMap((left) => lists.map((right) => [left, right] as const))
    for (const [next, old] of pairs) {
      const [row] = await service.asSuperuser.system(
        async (tx) =>
          await tx.query(
            sql('select keys.narrows_addresses($1::text[]::cidr[], $2::text[]::cidr[]) as narrows', next, old),
          ),
      )
      expect({ next, old, narrows: row?.['narrows'] }).toEqual({ next, old, narrows: isNarrowerOrEqualList(next, old) })
    }
  })
})

describe('the audit trail is append-only', () => {
  test.each([
    ['changing an event', `update keys.api_key_event set type = 'created' where key_id = $1`],
    ['deleting an event', 'delete from keys.api_key_event where key_id = $1'],
    ['emptying it', 'truncate keys.api_key_event'],
  ])('PostgreSQL refuses %s', async (_what, statement) => {
    const { admin, key } = await aRevokedKey()
    const values = statement.includes('$1') ? [key.id] : []
    for (const db of [asTenant(admin.tenantId), service.asSuperuser]) {
      expect(await failureOf(db.system(async (tx) => await tx.execute(sql(statement, ...values))))).toBeDefined()
    }
    const left = await service.asSuperuser.system(
      async (tx) => await tx.query(sql('select type from keys.api_key_event where key_id = $1 order by id', key.id)),
    )
    expect(left).toEqual([{ type: 'created' }, { type: 'revoked' }])
  })

  test('a change is rolled back if its event cannot be written', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const tooLong = { ...admin, label: 'x'.repeat(2000) }
    await service.asSuperuser.system(
      async (tx) =>
        await tx.execute(sql('alter table keys.api_key_event add constraint trial check (length(actor_label) < 1000)')),
    )
    expect((await revoke(service, tooLong, id)).status).toBe(500)
    expect(await getKey(service, admin, id)).toMatchObject({ state: 'active', version: 1 })
    await service.asSuperuser.system(
      async (tx) => await tx.execute(sql('alter table keys.api_key_event drop constraint trial')),
    )
    expect((await revoke(service, tooLong, id)).status).toBe(200)
  })
})
