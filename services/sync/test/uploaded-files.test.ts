import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { Connector, Run } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { mintAssertion, parseKeyRing } from '@postern/signed-context'
import type { TenantDb } from '@postern/tenant-db'
import { beforeAll, describe, expect, test } from 'vitest'
import { openUpload } from '../src/upload/read.ts'
import { receiveUpload } from '../src/upload/receive.ts'
import { csvOf, useRuns } from './run-support.ts'
import { admin, type makeWorld } from './support.ts'

const { parts, work, create, start, now, runCsv, decide } = useRuns()

let world: Awaited<ReturnType<typeof makeWorld>>
let caller: SignedCaller
let workerDb: TenantDb

beforeAll(() => {
  ;({ world, caller, workerDb } = parts())
})

const stored = async ({ tenantId }: Principal): Promise<number> =>
  (await world.rows('select from sync.upload_chunk where tenant_id = $1', [tenantId])).length

const by = ({ tenantId }: Principal) => ({
  assertion: mintAssertion(parseKeyRing(world.database.assertionKeys), tenantId, Date.now()),
})

/** As whoever died before it was removed would leave it. */
const leave = async ({ tenantId }: Principal, uploadId: unknown, age = '0') =>
  await world.rows(
    `insert into sync.upload_chunk (tenant_id, upload_id, index, content, stored_at)
    values ($1, $2, 0, '', now() - $3::interval)`,
    [tenantId, uploadId, age],
  )

const uploadOf = async ({ id }: Run) =>
  (await world.rows('select upload_id from sync.run where id = $1', [id]))[0]?.['upload_id']

const waiting = async (tenant: Principal) => {
  const connector = await create(tenant, { safety: { min_rows: 5 } })
  return { connector, run: await runCsv(tenant, connector, csvOf(3)) }
}

describe('an uploaded file is deleted', () => {
  test('when its run is cancelled before a worker has it', async () => {
    const tenant = admin()
    const run = await start(tenant, await create(tenant), csvOf(3))
    expect(await stored(tenant)).toBe(1)
    expect(await decide(tenant, run, 'cancel')).toBe(202)
    expect([(await now(tenant, run)).status, await stored(tenant)]).toEqual(['cancelled', 0])
  })

  test('when its run waits for approval, and the run can be approved all the same', async () => {
    const tenant = admin()
    const { run } = await waiting(tenant)
    expect(await stored(tenant)).toBe(0)
    expect(await decide(tenant, run, 'approve', { diff_hash: run.diff_hash })).toBe(202)
    await work(run)
    expect(await now(tenant, run)).toMatchObject({ status: 'succeeded', counts: { applied: 3 } })
  })

  test.each(['cancelled', 'superseded', 'retired'])('if its worker died and the run was %s', async (how) => {
    const tenant = admin()
    const { connector, run } = await waiting(tenant)
    await leave(tenant, await uploadOf(run))
    if (how === 'cancelled') await decide(tenant, run, 'cancel')
    if (how === 'retired') await caller.call(tenant, 'DELETE', `/api/v1/connectors/${connector.id}`)
    if (how === 'superseded') await runCsv(tenant, connector, csvOf(2))
    expect([(await now(tenant, run)).status, await stored(tenant)]).toEqual(['cancelled', 0])
  })

  test('when its upload breaks off', async () => {
    const tenant = admin()
    let before = 0
    async function* broken() {
      for (let part = 0; part < 4; part += 1) yield Buffer.alloc(1024 * 1024, 'x')
      before = await stored(tenant)
      throw new Error('the connection is gone')
    }
    const body = Readable.from(broken(), { objectMode: false })
    await expect(receiveUpload(workerDb, by(tenant), body)).rejects.toThrow('the connection is gone')
    expect([before > 0, await stored(tenant)]).toEqual([true, 0])
  })

  test('a day after its process died, as soon as any run of the tenant ends', async () => {
    const tenant = admin()
    const run = await start(tenant, await create(tenant), csvOf(1))
    await leave(tenant, randomUUID(), '25 hours')
    await leave(tenant, randomUUID(), '23 hours')
    await work(run)
    expect(await stored(tenant)).toBe(1)
  })
})

const digestOf = (content: string, algorithm = 'sha256') => createHash(algorithm).update(content).digest('base64')
const send = async (tenant: Principal, { id }: Connector, body: string, digest: string) =>
  await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`, {
    ...(body === '' ? {} : { body }),
    headers: { ...(body === '' ? {} : { 'content-type': 'text/csv' }), 'content-digest': digest },
  })
const runsOf = async ({ tenantId }: Principal) =>
  (await world.rows('select id from sync.run where tenant_id = $1', [tenantId])).length

describe('a file that comes with its digest (RFC 9530)', () => {
  test('starts a run if the digest matches', async () => {
    const tenant = admin()
    const [connector, csv] = [await create(tenant), csvOf(3)]
    const begun = await send(tenant, connector, csv, `sha-256=:${digestOf(csv)}:`)
    const inputSha256 = createHash('sha256').update(csv).digest('hex')
    expect([begun.status, begun.json]).toMatchObject([202, { input_sha256: inputSha256 }])
  })

  test('starts no run if lines were lost on the way, and is deleted', async () => {
    const tenant = admin()
    const connector = await create(tenant)
    const announced = `sha-256=:${digestOf(csvOf(2000))}:`
    for (const arrived of [csvOf(1000), csvOf(2000).replace('Entity 7,', 'Entity 8,')]) {
      const refused = await send(tenant, connector, arrived, announced)
      expect([refused.status, refused.json]).toMatchObject([422, { errors: [{ code: 'digest_mismatch' }] }])
    }
    expect([await runsOf(tenant), await stored(tenant)]).toEqual([0, 0])
  })

  test.each([
    ['is none', 'sha-256=:AAAA:'],
    ['is of an algorithm that is not checked', `sha-512=:${digestOf(csvOf(3), 'sha512')}:`],
    ['is no such header', digestOf(csvOf(3))],
  ])('starts no run if its digest %s, because the sender relies on the check', async (_what, digest) => {
    const tenant = admin()
    const refused = await send(tenant, await create(tenant), csvOf(3), digest)
    expect([refused.status, refused.json]).toMatchObject([400, { errors: [{ parameter: 'Content-Digest' }] }])
    expect([await runsOf(tenant), await stored(tenant)]).toEqual([0, 0])
  })

  test('starts no run if all of it was lost, also for a connector that fetches its source', async () => {
    const tenant = admin()
    const fetching = await create(tenant, { config: { url: 'https://erp.example/units.csv' } })
    const lost = await send(tenant, fetching, '', `sha-256=:${digestOf(csvOf(3))}:`)
    expect([lost.status, lost.json]).toMatchObject([422, { errors: [{ code: 'digest_mismatch' }] }])
    expect(await runsOf(tenant)).toBe(0)
    expect((await send(tenant, fetching, '', `sha-256=:${digestOf('')}:`)).status).toBe(202)
  })
})

const lineOf = (row: number): string => `E${row},Prüfgebiet № ${row} — «Zahlungsverkehr»,€ 1\n`

const read = async (tenant: Principal, id: string): Promise<Buffer> =>
  await buffer(openUpload(async (asked) => await workerDb.read(by(tenant), asked), id))

describe('a file is read unchanged', () => {
  const text = Array.from({ length: 50_000 }, (_none, row) => lineOf(row)).join('')
  const files = {
    'in UTF-8': Buffer.from(text),
    'in UTF-8 at first, and in windows-1252 from its middle on': Buffer.concat([
      Buffer.from(text.slice(0, text.length / 2)),
      Buffer.from('Prüfgebiet\n'.repeat(100_000), 'latin1'),
    ]),
    'in UTF-16, with zero bytes': Buffer.from(text, 'utf16le'),
    'of any bytes': Buffer.from(Array.from({ length: 2_000_000 }, (_none, at) => (at * at) % 256)),
  }

  test.each(Object.entries(files))('%s', async (_name, content) => {
    const tenant = admin()
    const { id } = await receiveUpload(workerDb, by(tenant), Readable.from(content, { objectMode: false }))
    expect(content.equals(await read(tenant, id))).toBe(true)
  })
})
