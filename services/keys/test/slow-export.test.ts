import { type IncomingMessage, get } from 'node:http'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type KeysUnderTest, administratorOf, newKey, newTenant, path, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

/** More rows than the buffers of a connection hold. */
const rows = 60_000

const lists = [
  {
    name: 'people',
    target: () => '/api/v1/members',
    fill: `insert into keys.member (tenant_id, id, name, roles, first_seen_at, last_seen_at)
       select $1::uuid, 'person-' || n, repeat('x', 200), '{viewer}', now(), now() from generate_series(1, $3::integer) as n
       where $2::uuid is not null`,
  },
  {
    name: 'the audit trail of a key',
    target: (keyId: string) => `${path}/${keyId}/events`,
    fill: `insert into keys.api_key_event (tenant_id, key_id, type, address, detail)
       select $1::uuid, $2::uuid, 'denied_revoked', '192.0.2.1', jsonb_build_object('note', repeat('x', 100))
       from generate_series(1, $3::integer)`,
  },
]

test.each(lists)(
  'an export of $name is complete even if its reader takes longer than the assertion is valid',
  async ({ target, fill }) => {
    const { tenantId } = await newTenant(service)
    const admin = administratorOf(tenantId)
    const { id } = await newKey(service, admin)
    await service.asSuperuser.system(async (tx) => await tx.execute(sql(fill, tenantId, id, rows)))
    // The assertion expires soon: it is valid for a minute.
    const assertedAt = Date.now() - 57_000
    const signed = service.sign(admin, 'GET', target(id), assertedAt)
    const headers = { ...signed, accept: 'application/x-ndjson' }
    const assertion = signed['postern-assertion'] ?? ''
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    get(`${service.url}${target(id)}`, { headers, agent: false }, resolve).once('error', reject)
    const answer = await promise
    expect(answer.statusCode).toBe(200)
    await once(answer, 'readable')
    const isBelieved = async (): Promise<boolean> =>
      await service.asService
        .read({ assertion }, async (tx) => await tx.query(sql('select tenancy.tenant_id()')))
        .then(
          () => true,
          () => false,
        )
    await expect.poll(isBelieved, { timeout: 30_000 }).toBe(false)
    const lines = (await text(answer)).trimEnd().split('\n')
    expect(lines.length).toBeGreaterThanOrEqual(rows)
    expect(new Set(lines).size).toBe(lines.length)
  },
)
