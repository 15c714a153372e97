/**
 * @promise Keys and secrets: What is done to keys is in the audit feed exactly once, and a reader of the feed misses nothing.
 */

import { type AuditEvent, auditEventSchema, bulkPreviewSchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { maintainAuditEvents, recordExpired } from '../src/audit-feed/store.ts'
import { type KeysUnderTest, failureOf, newKey, newTenant, path, revoke, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const feed = '/api/v1/audit-events'

async function readFeed(reader: Principal, query = ''): Promise<AuditEvent[]> {
  const { status, json, text } = await service.call(reader, 'GET', `${feed}?order=oldest${query}`)
  expect(status, text).toBe(200)
  return z.array(auditEventSchema).parse(json)
}

const actionsOf = (events: readonly AuditEvent[]) => events.map(({ action }) => action)

async function execute(text: string, ...values: unknown[]): Promise<void> {
  await service.asSuperuser.system(async (tx) => {
    await tx.execute(sql('set local session_replication_role = replica'))
    await tx.execute(sql(text, ...values))
  })
}

describe('who may read the feed', () => {
  test('not viewers, keys or requests without a signature, but auditors, their programs and administrators', async () => {
    const admin = await newTenant(service)
    const key: Principal = { ...admin, kind: 'api_key', id: crypto.randomUUID(), scopes: ['read:findings'], roles: [] }
    for (const caller of [{ ...admin, roles: ['viewer'] }, key, { ...admin, roles: [] }]) {
      expect((await service.call(caller, 'GET', feed)).status).toBe(403)
    }
    expect((await service.stranger.call(admin, 'GET', feed)).status).toBe(401)
    const auditor: Principal = { ...admin, roles: ['auditor'] }
    for (const caller of [admin, auditor, { ...auditor, kind: 'machine' as const }]) {
      expect(actionsOf(await readFeed(caller))).toEqual(['tenant.created'])
    }
  })

  test('another tenant sees none of the events, in the API and with the role of the service', async () => {
    const [ours, theirs] = [await newTenant(service), await newTenant(service)]
    const { id } = await newKey(service, theirs)
    const [event] = await readFeed(theirs, `&resource=${id}`)
    const target = `${feed}?id=${event?.id}`
    expect((await service.call(ours, 'GET', target)).json).toEqual([])
    expect((await service.call(theirs, 'GET', target)).json).toEqual([event])
    expect(await readFeed(ours, `&resource=${id}`)).toEqual([])
    expect((await service.call(ours, 'GET', `${feed}?after=${event?.position}`)).status).toBe(410)

    const count = sql('select count(*)::int as count from tenancy.audit_event where tenant_id = $1', theirs.tenantId)
    const seenBy = async ({ tenantId }: Principal) =>
      await service.asService.read(service.assertionOf(tenantId), async (tx) => await tx.query(count))
    expect(await seenBy(ours)).toEqual([{ count: 0 }])
    expect(await seenBy(theirs)).toEqual([{ count: 2 }])
  })

  test('no service can change or delete an event, or choose its position', async () => {
    const admin = await newTenant(service)
    for (const text of [
      'update tenancy.audit_event set reason = null',
      'delete from tenancy.audit_event',
      `insert into tenancy.audit_event (tenant_id, category, action, actor_type, resource_type, position)
       values ('${admin.tenantId}', 'key', 'key.created', 'person', 'key', 1)`,
    ]) {
      const work = service.asService.write(
        service.assertionOf(admin.tenantId),
        async (tx) => await tx.execute(sql(text)),
      )
      expect(await failureOf(work), text).toMatchObject({ sqlState: '42501' })
    }
  })
})

describe('each action is one event', () => {
  interface Prepared {
    readonly admin: Principal
    readonly id: string
    readonly value: string
    readonly etag: string
  }
  const deny = async ({ admin, id }: Prepared, reason: string) => {
    const denials = [{ tenantId: admin.tenantId, keyId: id, reason, address: '192.0.2.7', count: 1 }]
    await service.asService.system(async (tx) =>
      tx.execute(sql('select keys.record_denials($1::jsonb)', JSON.stringify(denials))),
    )
  }
  const change = async ({ admin, id, etag }: Prepared, body: object) =>
    await service.call(admin, 'PATCH', `${path}/${id}`, { body, headers: { 'if-match': etag } })

  test.each<[string, Partial<AuditEvent>, (key: Prepared) => Promise<unknown>]>([
    ['key.changed', { actor_id: 'ada', actor_type: 'person' }, async (key) => await change(key, { label: 'Another' })],
    [
      'key.rotated',
      { actor_id: 'ada' },
      async ({ admin, id }) => await service.call(admin, 'POST', `${path}/${id}/rotate`),
    ],
    [
      'key.revoked',
      { reason: 'Laptop lost', actor_name: 'Ada Lund', resource_name: 'Nightly export' },
      async ({ admin, id }) => await revoke(service, admin, id, { reason: 'Laptop lost' }),
    ],
    [
      'key.leaked',
      { actor_type: 'system', actor_id: null, actor_name: 'Postern', reason: 'Reported as leaked' },
      async ({ admin, value }) => await service.call(admin, 'POST', '/api/v1/leaked-keys', { body: { keys: [value] } }),
    ],
    [
      'key.expired',
      { actor_type: 'system', actor_id: null, actor_name: 'Postern' },
      async ({ id }) => {
        await execute(
          `update keys.api_key set expires_at = now() - interval '2 minutes',
          created_at = now() - interval '90 days' where id = $1`,
          id,
        )
        await execute(`update keys.expired_scan set scanned_until = now() - interval '3 minutes'`)
        await service.asService.system(async (tx) => await recordExpired(tx, 100))
      },
    ],
    [
      'key.refused',
      { outcome: 'failure', reason: 'address', actor_type: 'key', source_ip: '192.0.2.7' },
      async (key) => await deny(key, 'address'),
    ],
    [
      'key.used_after_revocation',
      { outcome: 'failure', reason: 'revoked', actor_type: 'key' },
      async (key) => await deny(key, 'revoked'),
    ],
  ])('%s', async (action, expected, act) => {
    const admin = await newTenant(service)
    const { id, value, etag } = await newKey(service, admin)
    await act({ admin, id, value, etag })
    await expect
      .poll(async () => actionsOf(await readFeed(admin, `&resource=${id}`)), { timeout: 60_000 })
      .toEqual(['key.created', action])
    expect((await readFeed(admin, `&action=${action}`))[0]).toMatchObject({
      category: 'key',
      outcome: 'success',
      resource_type: 'key',
      resource_id: id,
      ...expected,
    })
    expect(JSON.stringify(await readFeed(admin))).not.toContain(value)
  })

  test('a change of the policy, and of the tenant', async () => {
    const admin = await newTenant(service)
    const headers = { 'if-match': '*' }
    await service.call(admin, 'PATCH', '/api/v1/key-policy', { body: { max_key_days: 30 }, headers })
    await service.operate('POST', `${internalPaths.tenants}/${admin.tenantId}`, { body: { name: 'Harbourline' } })
    expect(await readFeed(admin)).toMatchObject([
      { action: 'tenant.created' },
      { action: 'key_policy.changed', actor_id: 'ada', resource_id: '2', resource_name: 'Key policy' },
      { action: 'tenant.changed', actor_type: 'operator', resource_name: 'Harbourline' },
    ])
  })

  test('each key of a bulk change', async () => {
    const admin = await newTenant(service)
    const made = await Promise.all(Array.from({ length: 3 }, async () => await newKey(service, admin)))
    const preview = await service.call(admin, 'POST', `${path}/bulk/preview`, {
      body: { ids: made.map(({ id }) => id) },
    })
    const { version } = bulkPreviewSchema.parse(preview.json)
    const body = { action: 'revoke', ids: made.map(({ id }) => id), version }
    const changed = await service.call(admin, 'POST', `${path}/bulk`, { body })
    expect(changed.status, changed.text).toBe(200)
    const revoked = await readFeed(admin, '&action=key.revoked')
    expect(revoked.map((event) => event.resource_id).toSorted()).toEqual(made.map(({ id }) => id).toSorted())
  })
})

describe('the order of the feed', () => {
  test('a reader that continues after its last event gets every event of concurrent writers once', async () => {
    const admin = await newTenant(service)
    const writers = Array.from({ length: 6 }, async () => {
      const ids: string[] = []
      for (let n = 0; n < 15; n += 1) ids.push((await newKey(service, admin)).id)
      return ids
    })
    const state = { isDone: false }
    const all = Promise.all(writers).finally(() => (state.isDone = true))
    const read: AuditEvent[] = []
    for (let isLast = false; !isLast;) {
      isLast = state.isDone
      const after = read.at(-1)?.position
      read.push(...(await readFeed(admin, `&category=key&limit=7${after === undefined ? '' : `&after=${after}`}`)))
      if (isLast && read.length < 90) isLast = false
    }
    expect(read.map((event) => event.resource_id).toSorted()).toEqual((await all).flat().toSorted())
    const positions = (await readFeed(admin, '&limit=1000')).map(({ position }) => Number(position.split('.')[0]))
    expect(positions).toEqual(Array.from({ length: 91 }, (_, n) => n + 1))
  })

  test('an event of a transaction that commits late comes after those that were read before', async () => {
    const admin = await newTenant(service)
    const insert = sql(
      `insert into tenancy.audit_event (tenant_id, category, action, actor_type, resource_type)
       values ($1, 'tenant', 'tenant.changed', 'operator', 'tenant')`,
      admin.tenantId,
    )
    const assertion = service.assertionOf(admin.tenantId)
    const { id, position } = await service.asSuperuser.write(assertion, async (tx) => {
      await tx.execute(insert)
      const { id: made } = await newKey(service, admin)
      const [last] = await readFeed(admin, `&resource=${made}`)
      return { id: made, position: last?.position ?? '' }
    })
    expect(actionsOf(await readFeed(admin, `&after=${position}`))).toEqual(['tenant.changed'])
    const listed = await service.call(admin, 'GET', `${feed}?resource=${id}`)
    expect(listed.json).toMatchObject([{ action: 'key.created' }])
  })

  test('a transaction that is rolled back leaves no event, and a change without its event is not made', async () => {
    const admin = await newTenant(service)
    await service.asSuperuser.system(async (tx) =>
      tx.execute(sql(`alter table tenancy.audit_event add constraint broken check (resource_name <> 'Broken')`)),
    )
    const create = async (label: string) =>
      await service.call(admin, 'POST', path, { body: { label, expires_in: '90d', scopes: ['read:findings'] } })
    expect((await create('Broken')).status).toBe(500)
    expect((await create('Whole')).status).toBe(201)
    await service.asSuperuser.system(async (tx) =>
      tx.execute(sql('alter table tenancy.audit_event drop constraint broken')),
    )
    expect((await service.call(admin, 'GET', path)).json).toMatchObject([{ label: 'Whole' }])
    expect(actionsOf(await readFeed(admin))).toEqual(['tenant.created', 'key.created'])
  })
})

test('events can be filtered by time, category, actor and outcome, newest first', async () => {
  const admin = await newTenant(service)
  const first = await newKey(service, admin)
  const between = new Date((await readFeed(admin)).at(-1)?.timestamp ?? '')
  await newKey(service, { ...admin, id: 'bo', label: 'Bo' })
  const list = async (query: string) => {
    const { json } = await service.call(admin, 'GET', `${feed}?${query}`)
    return z
      .array(auditEventSchema)
      .parse(json)
      .map(({ actor_id: actor, action }) => `${actor} ${action}`)
  }
  expect(await list('category=key,tenant')).toEqual(['bo key.created', 'ada key.created', 'operator tenant.created'])
  expect(await list('actor=bo')).toEqual(['bo key.created'])
  expect(await list(`resource=${first.id}`)).toEqual(['ada key.created'])
  expect(await list('outcome=failure')).toEqual([])
  const later = new Date(between.getTime() + 1).toISOString()
  expect(await list(`since=${later}`)).toEqual(['bo key.created'])
  expect(await list(`until=${later}`)).toEqual(['ada key.created', 'operator tenant.created'])
  for (const query of ['outcome=perhaps', 'category=none', 'after=1', 'since=yesterday']) {
    expect((await service.call(admin, 'GET', `${feed}?${query}`)).status, query).toBe(400)
  }
})

test.each([undefined, 90, 3650])('with a policy of %s days, older events are deleted', async (policy) => {
  const limit = policy ?? 400
  const [young, old] = [await newTenant(service), await newTenant(service)]
  for (const [admin, days] of [
    [young, limit - 1],
    [old, limit + 1],
  ] as const) {
    const { id } = await newKey(service, admin)
    if (policy !== undefined) expect(await keepFor(admin, policy)).toMatchObject({ status: 200 })
    await readFeed(admin)
    const age = 'update tenancy.audit_event set at = now() - make_interval(days => $2) where tenant_id = $1'
    await execute(age, admin.tenantId, days)
    await service.asService.system(async (tx) => await maintainAuditEvents(tx, 100))
    await revoke(service, admin, id)
  }
  const changed = policy === undefined ? [] : ['key_policy.changed']
  expect(actionsOf(await readFeed(young))).toEqual(['tenant.created', 'key.created', ...changed, 'key.revoked'])
  // Positions of deleted events are not used again.
  const position = expect.stringMatching(policy === undefined ? /^3\./ : /^4\./)
  expect(await readFeed(old)).toMatchObject([{ action: 'key.revoked', position }])
})

test('a shorter time deletes the events of its tenant only, and a longer one brings none back', async () => {
  const [admin, other] = [await newTenant(service), await newTenant(service)]
  await Promise.all([readFeed(admin), readFeed(other)])
  const age = "update tenancy.audit_event set at = now() - interval '100 days' where tenant_id = any ($1)"
  await execute(age, [admin.tenantId, other.tenantId])
  for (const days of [89, 3651, 0, null, 90.5, 'ever']) {
    expect((await keepFor(admin, days)).status, String(days)).toBe(422)
  }
  const maintain = async () => await service.asService.system(async (tx) => await maintainAuditEvents(tx, 100))
  await maintain()
  expect(actionsOf(await readFeed(admin))).toEqual(['tenant.created'])
  await keepFor(admin, 90)
  await maintain()
  await keepFor(admin, 400)
  expect(actionsOf(await readFeed(admin))).toEqual(['key_policy.changed', 'key_policy.changed'])
  expect(actionsOf(await readFeed(other))).toEqual(['tenant.created'])
})

async function keepFor(admin: Principal, days: unknown) {
  const body = { audit_retention_days: days }
  return await service.call(admin, 'PATCH', '/api/v1/key-policy', { body, headers: { 'if-match': '*' } })
}
