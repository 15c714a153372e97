import { createLogger } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { randomBytes, randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import type { BlobStore, PendingBlob } from '../blob/blob-store.ts'
import type { PartialStore, PartialUpload } from '../blob/partial-store.ts'
import { sweepRegularly } from './sweep.ts'

const notHere = async (): Promise<never> => await Promise.reject(new Error('not done here'))
async function* none(): AsyncGenerator<never> {}
async function* one(): AsyncGenerator<PartialUpload> {
  yield { tenantId: randomUUID(), id: randomUUID() }
}
const noBlobs: BlobStore = {
  isRemote: false,
  openIncoming: notHere,
  putName: notHere,
  moveIntoPlace: notHere,
  remove: notHere,
  finish: notHere,
  reopen: none,
  read: notHere,
  listPending: notHere,
  listTenantsWithPending: notHere,
  sweepIncoming: notHere,
  time: async () => await Promise.resolve(Date.now()),
  assertWritable: notHere,
}
const noPartials: PartialStore = {
  append: notHere,
  seal: notHere,
  read: none,
  remove: notHere,
  list: none,
  sweep: notHere,
}

function aLog() {
  const lines: string[] = []
  return { lines, logger: createLogger({ service: 'evidence', level: 'info', write: (line) => lines.push(line) }) }
}

/** A database that answers every question in the same way. */
const answering = (row: Record<string, unknown>) => {
  const tx: Tx = {
    query: async () => await Promise.resolve([row] as never),
    execute: async () => await Promise.resolve(0),
  }
  return { system: async <T>(work: (given: Tx) => Promise<T>) => await work(tx) }
}

const hour = 3_600_000
const limits = { abandonedAfterMs: hour, sweepEveryMs: hour }

/** So many entries of one tenant, with what becomes of each. */
function leftovers(count: number) {
  const tenantId = randomUUID()
  const all = Array.from({ length: count }, (): PendingBlob => {
    const sha256 = randomBytes(32).toString('hex')
    return { tenantId, sha256, entry: `${sha256}.${randomBytes(16).toString('hex')}` }
  })
  const finished: [PendingBlob, string][] = []
  const blobs: BlobStore = {
    ...noBlobs,
    sweepIncoming: async () => await Promise.resolve(0),
    listTenantsWithPending: async () => await Promise.resolve(new Set([tenantId])),
    listPending: async () => await Promise.resolve(all),
    remove: async () => await Promise.resolve(),
    finish: async (blob, outcome) => await Promise.resolve(void finished.push([blob, outcome])),
  }
  const partials = { ...noPartials, sweep: async () => await Promise.resolve(0) }
  return { all, finished, blobs, partials }
}

test('an entry that cannot be decided now does not block the others', async () => {
  const { all, finished, blobs, partials } = leftovers(3)
  const { lines, logger } = aLog()
  const failing: BlobStore = {
    ...blobs,
    finish: async (blob, outcome) => await (blob === all[0] ? notHere() : blobs.finish(blob, outcome)),
  }
  const parts = { db: answering({ yes: false }), blobs: failing, partials }
  const { stop } = await sweepRegularly(parts, limits, { logger, now: Date.now })
  await vi.waitFor(() => expect(finished).toEqual(all.slice(1).map((blob) => [blob, 'gone'])), 20_000)
  await stop()
  expect(lines.filter((line) => line.includes('settling_failed'))).toHaveLength(1)
})

test.each([
  ['is away', { system: notHere }],
  ['says neither yes nor no', answering({ yes: null })],
] as const)('nothing goes where the database %s, and it is not asked for ever', async (_what, db) => {
  const { finished, blobs, partials } = leftovers(100)
  const { lines, logger } = aLog()
  const removed: string[] = []
  const there: PartialStore = {
    ...partials,
    list: one,
    remove: async (_tenantId, id) => await Promise.resolve(void removed.push(id)),
  }
  const { stop } = await sweepRegularly({ db, blobs, partials: there }, limits, { logger, now: Date.now })
  const failures = () => lines.filter((line) => line.includes('settling_failed'))
  await vi.waitFor(() => expect(failures()).toHaveLength(11), 20_000)
  await stop()
  expect([finished, removed]).toEqual([[], []])
})

test('a tenant whose entries cannot be listed does not affect others, and is logged', async () => {
  const { all, finished, blobs, partials } = leftovers(3)
  const unread = Array.from({ length: 3 }, (): string => randomUUID())
  const failing: BlobStore = {
    ...blobs,
    listTenantsWithPending: async () => await Promise.resolve(new Set([...unread, all[0]?.tenantId ?? ''])),
    listPending: async (tenantId) => await (unread.includes(tenantId) ? notHere() : Promise.resolve(all)),
  }
  const { lines, logger } = aLog()
  const parts = { db: answering({ yes: false }), blobs: failing, partials }
  const { stop } = await sweepRegularly(parts, limits, { logger, now: Date.now })
  const told = () => lines.filter((line) => line.includes('sweep_failed'))
  await vi.waitFor(() => expect(told()).toHaveLength(1), 20_000)
  await stop()
  expect(finished).toEqual(all.map((blob) => [blob, 'gone']))
  expect(
    unread.filter((tenantId) => told()[0]?.includes(`3 folders could not be listed, first ${tenantId}`)),
  ).toHaveLength(1)
})

test('many open uploads of one tenant do not keep the remains of others from being deleted', async () => {
  const [busy, other] = [randomUUID(), { tenantId: randomUUID(), id: randomUUID() }]
  const { blobs, partials } = leftovers(0)
  const removed: string[] = []
  const asked: unknown[] = []
  const there: PartialStore = {
    ...partials,
    list: async function* list() {
      for (let count = 0; count < 11_000; count += 1) yield { tenantId: busy, id: randomUUID() }
      yield other
    },
    remove: async (_tenantId, id) => await Promise.resolve(void removed.push(id)),
  }
  const tx: Tx = {
    query: async ({ values }) => {
      asked.push(values[0])
      return await Promise.resolve([{ yes: values[0] === busy }] as never)
    },
    execute: async () => await Promise.resolve(0),
  }
  const db = { system: async <T>(work: (given: Tx) => Promise<T>) => await work(tx) }
  const { stop } = await sweepRegularly({ db, blobs, partials: there }, limits, {
    logger: aLog().logger,
    now: Date.now,
  })
  await vi.waitFor(() => expect(removed).toEqual([other.id]), 20_000)
  await stop()
  expect(asked).toHaveLength(1001)
})

test('a failure in a sweep does not stop the rest of it', async () => {
  const { all, finished, blobs } = leftovers(1)
  const { lines, logger } = aLog()
  const parts = { db: answering({ yes: true }), blobs: { ...blobs, sweepIncoming: notHere }, partials: noPartials }
  const { stop } = await sweepRegularly(parts, limits, { logger, now: Date.now })
  await vi.waitFor(() => expect(finished).toEqual(all.map((blob) => [blob, 'kept'])), 20_000)
  await stop()
  expect(lines.filter((line) => line.includes('sweep_failed'))).toHaveLength(2)
})

test.each([
  ['ours', () => Date.now() + 2 * hour, async () => await Promise.resolve(Date.now())],
  ["the store's", Date.now, async () => await Promise.resolve(Date.now() + 2 * hour)],
  ['one that is not told', Date.now, notHere],
] as const)('a clock that is ahead makes nothing old: %s', async (_whose, now, time) => {
  const asked: number[] = []
  const note = (olderThan: number) => asked.push(olderThan)
  const { blobs, partials } = leftovers(0)
  const recordingStore: BlobStore = {
    ...blobs,
    time,
    sweepIncoming: async (olderThan) => await Promise.resolve(note(olderThan) - asked.length),
    listTenantsWithPending: async (olderThan) => {
      note(olderThan)
      return await Promise.resolve(new Set<string>())
    },
  }
  const { stop } = await sweepRegularly({ db: { system: notHere }, blobs: recordingStore, partials }, limits, {
    logger: aLog().logger,
    now,
  })
  await stop()
  expect(asked.filter((olderThan) => olderThan > Date.now() - hour)).toEqual([])
})
