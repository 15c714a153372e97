/**
 * @promise Data: No acknowledged write is lost when the PostgreSQL primary is killed under load and its standby takes over.
 */

import { connectorSchema, runSchema } from '@postern/contracts'
import { type RunningCluster, type TestStack, startTestCluster, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Churn, prepareChurn } from '../support/churn.ts'
import { type RequestOptions, send } from '../support/http.ts'
import { findWrongChanges, readChanges } from '../support/key-writes.ts'
import { type Operation, type Request, findViolations, findWrongWrites } from '../support/promises.ts'
import { type Traffic, startTraffic } from '../support/traffic.ts'
import { readWrites } from '../support/writes.ts'
import { describeViolations } from './outcome.ts'

/*
 * The URL names a primary and its synchronous standby. The primary is killed while every service writes and keys are
 * revoked; then the standby is promoted.
 */
const sequence: readonly Operation[] = [
  'whoami',
  'create',
  'list',
  'push',
  'whoami',
  'upload',
  'entities',
  'connectors',
]
const operations = [...new Set(sequence)]
const scopes = ['read:findings', 'write:findings', 'read:universe', 'write:evidence', 'admin:sync'] as const

const ends = new AsyncDisposableStack()
let cluster: RunningCluster
let stack: TestStack
let traffic: Traffic
let churn: Churn

beforeAll(async () => {
  cluster = await startTestCluster({ standby: true })
  ends.defer(async () => await cluster.stop())
  stack = await startTestStack({ gateways: 2 })
  ends.defer(async () => await stack.stop())
  traffic = startTraffic({ gateways: stack.gateways, perSecond: 40, sequence, pushesNew: true })
  churn = await prepareChurn(stack, traffic, { scopes })
  await succeeded(performance.now())
  await churn.start()
})

afterAll(async () => await ends.disposeAsync())

function isAcceptedWrite({ externalId, status }: Request): boolean {
  return externalId !== undefined && [200, 201].includes(status)
}

/** Resolves when every gateway has completed every operation in a request started after `since`. */
async function succeeded(since: number): Promise<void> {
  await Promise.all(
    stack.gateways.flatMap((gateway) =>
      operations.map(async (operation) => {
        await traffic.ended(`${operation} succeeds at ${gateway}`, (request) => {
          const isOfStream = request.gateway === gateway && request.operation === operation
          return isOfStream && request.startedAt > since && request.status >= 200 && request.status < 300
        })
      }),
    ),
  )
}

describe('when the primary is killed under load and the standby is promoted', () => {
  test('writes and revocations succeed again in every service', { timeout: 300_000 }, async () => {
    const acceptedWrites = (): number => traffic.requests.filter(isAcceptedWrite).length
    await churn.revoked(3, 0)
    await traffic.ended('20 writes are accepted', () => acceptedWrites() >= 20)
    const before = acceptedWrites()
    await cluster.postgres.kill('SIGKILL')
    await traffic.ended('a write fails', ({ operation, status }) => operation === 'create' && status >= 500)
    await cluster.promote()
    const promotedAt = performance.now()
    await succeeded(promotedAt)
    await churn.revoked(3, promotedAt)
    expect(acceptedWrites()).toBeGreaterThan(before)
  })

  test('the queue of the sync service carries out runs', { timeout: 300_000 }, async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['admin:sync'] })
    const ask = async (path: string, options: RequestOptions = {}): Promise<unknown> =>
      (await send(stack.gateways[0] ?? '', path, { key, ...options })).json
    const mapping = [
      { target: 'external_id', source: 'Code' },
      { target: 'name', source: 'Code' },
      { target: 'type', constant: 'process' },
    ]
    const body = { key: 'ledger', name: 'Ledger', type: 'csv', dataset: 'auditable_entities', mapping }
    const { id } = connectorSchema.parse(await ask('/api/v1/connectors', { method: 'POST', body }))
    const csv = { method: 'POST', headers: { 'content-type': 'text/csv' }, body: 'Code\nA1\n' } as const
    const run = runSchema.parse(await ask(`/api/v1/connectors/${id}/runs`, csv))
    const read = async (): Promise<unknown> => runSchema.parse(await ask(`/api/v1/sync-runs/${run.id}`)).status
    await expect.poll(read, { timeout: 120_000, interval: 200 }).toBe('succeeded')
  })

  test('no acknowledged write is lost and no revoked key is accepted', { timeout: 300_000 }, async () => {
    await churn.stop()
    await traffic.stop()
    const { keys, changes } = churn
    expect(describeViolations(findViolations({ requests: traffic.requests, keys, changes }), changes)).toEqual([])
    expect(findWrongWrites(traffic, await readWrites(stack))).toEqual([])
    expect(findWrongChanges(churn, await readChanges(stack))).toEqual([])
  })
})
