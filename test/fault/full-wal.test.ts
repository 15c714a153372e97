/**
 * @promise Data: No acknowledged write is lost and no revoked key is accepted when the disk of PostgreSQL's log is full.
 */

import { chown, cp, readdir, realpath, rename, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type RunningCluster, type TestStack, startTestCluster, startTestStack } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Churn, prepareChurn } from '../support/churn.ts'
import { type SmallDisk, mountSmallDisk } from '../support/full-disk.ts'
import { findWrongChanges, readChanges } from '../support/key-writes.ts'
import { type Operation, type Request, findViolations, findWrongWrites } from '../support/promises.ts'
import { type Traffic, startTraffic } from '../support/traffic.ts'
import { readWrites } from '../support/writes.ts'
import { describeViolations } from './outcome.ts'

/*
 * PostgreSQL ends itself when it cannot write its log, and does not start before there is space. Here somebody makes
 * space and starts it again; the services are not touched.
 */
const sequence: readonly Operation[] = ['whoami', 'create', 'list', 'push', 'upload', 'connectors']
const operations = [...new Set(sequence)]
const writes: readonly Operation[] = ['create', 'push', 'upload']
const scopes = ['read:findings', 'write:findings', 'read:universe', 'write:evidence', 'admin:sync'] as const

const ends = new AsyncDisposableStack()
const disk: SmallDisk | string = await mountSmallDisk()

describe.skipIf(typeof disk === 'string')('when the disk of the write-ahead log is full', () => {
  let cluster: RunningCluster
  let stack: TestStack
  let traffic: Traffic
  let churn: Churn

  beforeAll(async () => {
    if (typeof disk === 'string') return
    ends.defer(async () => await disk.close())
    cluster = await startTestCluster({ durable: true })
    ends.defer(async () => await cluster.stop())
    await cluster.postgres.kill('SIGINT')
    await cluster.postgres.stop()
    await moveLog(disk)
    await cluster.postgres.restart()
    stack = await startTestStack({ gateways: 2 })
    ends.defer(async () => await stack.stop())
    traffic = startTraffic({ gateways: stack.gateways, perSecond: 40, sequence, pushesNew: true })
    churn = await prepareChurn(stack, traffic, { scopes, repeated: [507] })
    await succeeded(performance.now())
    await churn.start()
  })

  afterAll(async () => await ends.disposeAsync())

  async function moveLog({ folder }: SmallDisk): Promise<void> {
    const usual = join(await realpath(join(cluster.cluster.home, 'postgres')), 'data', 'pg_wal')
    const { uid, gid } = await stat(usual)
    const moved = join(folder, 'pg_wal')
    await cp(usual, moved, { recursive: true })
    await rename(usual, `${usual}.before`)
    await symlink(moved, usual)
    const copied = await readdir(moved, { recursive: true })
    for (const name of ['..', '.', ...copied]) await chown(join(moved, name), uid, gid)
  }

  async function succeeded(since: number): Promise<void> {
    await Promise.all(
      stack.gateways.flatMap((gateway) =>
        operations.map(async (operation) => {
          await traffic.ended(`${operation} succeeds at ${gateway}`, (request) => {
            const isOfStream = request.gateway === gateway && request.operation === operation
            return isOfStream && request.startedAt > since && isAccepted(request)
          })
        }),
      ),
    )
  }

  /** Writes until PostgreSQL has no space for more. */
  async function exhaustLog(): Promise<void> {
    const { port, superuserPassword: password } = cluster.cluster
    const client = new Client({ host: '127.0.0.1', port, user: 'postgres', password, database: 'postgres' })
    client.on('error', () => undefined)
    await client.connect()
    const write = async (): Promise<boolean> =>
      await client.query(`select pg_logical_emit_message(false, 'fill', repeat('x', 4000000))`).then(
        () => true,
        () => false,
      )
    while (await write());
    await client.end().catch(() => undefined)
  }

  test('requests get 503 or 507, and all succeed again once there is space', { timeout: 300_000 }, async () => {
    if (typeof disk === 'string') return
    const acceptedWrites = (): number => traffic.requests.filter(isAcceptedWrite).length
    await churn.revoked(3, 0)
    await traffic.ended('20 writes are accepted', () => acceptedWrites() >= 20)
    await disk.fill()
    await exhaustLog()
    let failed = 0
    await traffic.ended('20 writes fail', ({ operation, status }) => {
      if (operation === 'create' && status >= 500) failed += 1
      return failed >= 20
    })
    await disk.free()
    await cluster.postgres.restart()
    const startedAt = performance.now()
    await succeeded(startedAt)
    await churn.revoked(3, startedAt)
    const failures = new Set(traffic.requests.map(({ status }) => status).filter((status) => status >= 500))
    expect([...failures].filter((status) => ![503, 507].includes(status))).toEqual([])
  })

  test('no acknowledged write is lost and no revoked key is accepted', { timeout: 300_000 }, async () => {
    await churn.stop()
    await traffic.stop()
    const { keys, changes } = churn
    const violations = findViolations({ requests: traffic.requests, keys, changes, fullDisk: writes })
    expect(describeViolations(violations, changes)).toEqual([])
    expect(findWrongWrites(traffic, await readWrites(stack))).toEqual([])
    expect(findWrongChanges(churn, await readChanges(stack))).toEqual([])
  })
})

function isAccepted({ status }: Request): boolean {
  return status >= 200 && status < 300
}

function isAcceptedWrite(request: Request): boolean {
  return request.externalId !== undefined && [200, 201].includes(request.status)
}
