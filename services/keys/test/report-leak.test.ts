import { generateKey } from '@postern/api-key'
import { apiKeyEventSchema, leakReceiptSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { answerAfterMs } from '../src/leak/reports.ts'
import {
  type KeysUnderTest,
  LeaseHolder,
  eventTypes,
  failureOf,
  gatewayPrincipal,
  getKey,
  lookUp,
  newKey,
  newTenant,
  path,
  revoke,
  sql,
  startKeys,
  whileLeased,
} from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const address = '203.0.113.7'

/** Reports as the gateway forwards it for a client without credentials. */
async function report(body: unknown, headers: Record<string, string> = {}) {
  const startedAt = performance.now()
  const client = { ...gatewayPrincipal, label: address }
  const answer = await service.call(client, 'POST', '/api/v1/leaked-keys', { body, headers })
  return { ...answer, tookMs: performance.now() - startedAt }
}

function altered(value: string): string {
  return `${value.slice(0, -1)}${value.endsWith('0') ? '1' : '0'}`
}

describe('a report is refused', () => {
  test('if it is not signed by the gateway, and the key stays active', async () => {
    const admin = await newTenant(service)
    const { id, value } = await newKey(service, admin)
    const stranger = { ...gatewayPrincipal, label: address }
    const answer = await service.stranger.call(stranger, 'POST', '/api/v1/leaked-keys', { body: { keys: [value] } })
    expect(answer.status).toBe(401)
    expect(await getKey(service, admin, id)).toMatchObject({ state: 'active' })
  })

  test('completely unless it has 1 to 100 whole keys, and the answer repeats no value', async () => {
    const admin = await newTenant(service)
    const { id, value } = await newKey(service, admin)
    const wrong = [
      undefined,
      {},
      { keys: [] },
      { keys: value },
      { keys: [value, value.slice(0, -1)] },
      { keys: [value, ` ${value}`] },
      { keys: [value, null] },
      { keys: [value], reason: value },
      { keys: Array.from({ length: 101 }, () => value) },
    ]
    for (const body of wrong) {
      const { status, text } = await report(body)
      expect([body, status]).toEqual([body, 422])
      expect(text).not.toContain(value.slice(8, 30))
    }
    expect(await getKey(service, admin, id)).toMatchObject({ state: 'active' })
  })
})

test('reported keys are revoked in every tenant, and their trail says who reported them from where', async () => {
  const [first, second] = [await newTenant(service), await newTenant(service)]
  const [one, two, other] = [
    await newKey(service, first),
    await newKey(service, second, { scopes: ['*'] }),
    await newKey(service, second),
  ]
  const answer = await report({ keys: [one.value, two.value, two.value, generateKey().value, altered(other.value)] })
  expect(answer.status).toBe(202)
  expect(answer.headers['cache-control']).toBe('no-store')
  const receipt = leakReceiptSchema.parse(answer.json)
  expect(receipt.values).toBe(4)
  for (const [admin, { id, hash }] of [
    [first, one],
    [second, two],
  ] as const) {
    expect(await getKey(service, admin, id)).toMatchObject({
      state: 'revoked',
      revoked_by: { type: 'reporter', id: address, label: address },
      revoke_reason: 'Reported as leaked',
    })
    const { json } = await service.call(admin, 'GET', `${path}/${id}/events`)
    expect(apiKeyEventSchema.array().parse(json)[0]).toMatchObject({
      type: 'revoked',
      actor: { type: 'reporter', label: address },
      address,
      detail: { reason: 'Reported as leaked', report: receipt.id },
    })
    expect((await lookUp(service, hash)).record).toMatchObject({ revoked: true, version: 2 })
    expect(service.log.filter((line) => line.includes('key_revoked') && line.includes(id))).toHaveLength(1)
  }
  expect(await getKey(service, second, other.id)).toMatchObject({ state: 'active' })
})

test('active, expired, revoked, unknown and altered values get the same answer after the same time', async () => {
  const admin = await newTenant(service)
  const [active, waiting, revoked, expired] = [
    await newKey(service, admin),
    await newKey(service, admin),
    await newKey(service, admin),
    await newKey(service, admin),
  ]
  await revoke(service, admin, revoked.id)
  await service.asSuperuser.system(async (tx) => {
    await tx.execute(sql('alter table keys.api_key disable trigger api_key_guard'))
    const text = `update keys.api_key set created_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' where id = $1`
    await tx.execute(sql(text, expired.id))
    await tx.execute(sql('alter table keys.api_key enable trigger api_key_guard'))
  })
  // This gateway applies nothing, so the revocations wait until its lease has ended.
  const gateway = await new LeaseHolder(service.ask).take()
  const values = [active.value, waiting.value, revoked.value, expired.value, generateKey().value, altered(active.value)]
  const answers = await Promise.all(values.map(async (value) => await report({ keys: [value] })))
  await gateway.release()
  for (const { status, json, headers, tookMs } of answers) {
    expect({ status, members: Object.keys(leakReceiptSchema.parse(json)), length: headers['content-length'] }).toEqual({
      status: 202,
      members: ['id', 'received_at', 'values'],
      length: answers[0]?.headers['content-length'],
    })
    expect(tookMs).toBeGreaterThanOrEqual(answerAfterMs - 1)
  }
  expect(await eventTypes(service, admin, revoked.id)).toEqual(['revoked', 'created'])
  expect(await getKey(service, admin, expired.id)).toMatchObject({ state: 'revoked' })
})

test('every gateway has applied the revocation before the answer', async () => {
  await whileLeased(async () => {
    const admin = await newTenant(service)
    const { value, hash } = await newKey(service, admin)
    const gateway = await new LeaseHolder(service.ask).take()
    const seen: unknown[] = []
    const state = { isAnswered: false }
    const answered = report({ keys: [value] }).finally(() => {
      state.isAnswered = true
    })
    while (!state.isAnswered) {
      const { revocations } = await gateway.renew()
      if (!state.isAnswered) seen.push(...revocations)
    }
    expect((await answered).status).toBe(202)
    expect(seen).toContainEqual(expect.objectContaining({ kind: 'key', hash, revoked: true }))
    await gateway.release()
  })
})

test.concurrent('a repeated report has no second effect, and an Idempotency-Key stores nothing', async () => {
  const admin = await newTenant(service)
  const { id, value } = await newKey(service, admin)
  const headers = { 'idempotency-key': crypto.randomUUID() }
  const answers = await Promise.all([1, 2, 3].map(async () => await report({ keys: [value] }, headers)))
  expect(answers.map(({ status }) => status)).toEqual([202, 202, 202])
  expect(new Set(answers.map(({ json }) => leakReceiptSchema.parse(json).id)).size).toBe(3)
  expect(await eventTypes(service, admin, id)).toEqual(['revoked', 'created'])
  const { json } = await service.call(admin, 'GET', `${path}/${id}/events`)
  expect(answers.map((answer) => leakReceiptSchema.parse(answer.json).id)).toContain(
    apiKeyEventSchema.array().parse(json)[0]?.detail['report'],
  )
  const kept = await service.asSuperuser.system(
    async (tx) => await tx.query(sql('select from keys.idempotency_record where slot is not null')),
  )
  // Only those of keys that were created with one, of which this file has none.
  expect(kept).toEqual([])
})

test.concurrent('an operator is named in the trail', async () => {
  const admin = await newTenant(service)
  const { id, value } = await newKey(service, admin)
  expect((await service.operate('POST', '/api/v1/leaked-keys', { body: { keys: [value] } })).status).toBe(202)
  expect(await getKey(service, admin, id)).toMatchObject({ revoked_by: { type: 'reporter', label: 'operator' } })
})

test.concurrent('logs and rows contain no reported value', async () => {
  const admin = await newTenant(service)
  const { value } = await newKey(service, admin)
  const unknown = generateKey().value
  await report({ keys: [value, unknown] })
  await report({ keys: [value, `${unknown}x`] })
  const metrics = await (await fetch(`${service.url}/internal/metrics`)).text()
  const events = await service.asSuperuser.system(
    async (tx) => await tx.query<{ text: string }>(sql(`select e::text as text from keys.api_key_event as e`)),
  )
  const texts = [...service.log, metrics, ...events.map(({ text }) => text)].join('\n')
  for (const secret of [value, unknown]) expect(texts).not.toContain(secret.slice(8, 30))
})

test('a database that cannot write rejects a report of an unknown key as well', async () => {
  const text = `select * from keys.revoke_leaked_keys(array[decode(repeat('00', 32), 'hex')], array['{}'::jsonb], 'a', 'a', null)`
  expect(
    await failureOf(
      service.asService.system(async (tx) => {
        await tx.execute(sql('set transaction read only'))
        await tx.query(sql(text))
      }),
    ),
  ).toMatchObject({ kind: 'unavailable' })
  expect(await service.asService.system(async (tx) => await tx.query(sql(text)))).toEqual([])
})
