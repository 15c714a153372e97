import { createLogger } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { randomBytes, randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { BlobStore, SettlingBlob } from '../blob/blob-store.ts'
import { sweepRegularly } from '../blob/sweep.ts'
import { openAfterwards } from './afterwards.ts'
import { openSettling } from './settle.ts'

const notHere = async (): Promise<never> => await Promise.reject(new Error('not done here'))
async function* none(): AsyncGenerator<never> {}
const unused: BlobStore = {
  openIncoming: notHere,
  offer: notHere,
  place: notHere,
  remove: notHere,
  finish: notHere,
  reopen: none,
  read: notHere,
  listSettling: notHere,
  listUnsettled: notHere,
  sweepIncoming: notHere,
  assertWritable: notHere,
}

function aLog() {
  const lines: string[] = []
  return { lines, logger: createLogger({ service: 'evidence', level: 'info', write: (line) => lines.push(line) }) }
}

const tenantId = randomUUID()
const context = {
  tenantId,
  id: randomUUID(),
  kind: 'api_key',
  label: 'a',
  scopes: [],
  roles: [],
  assertion: 'none',
} as const
const tx: Tx = { query: async () => await Promise.resolve([]), execute: async () => await Promise.resolve(0) }

test('what was left behind and cannot be decided now keeps nothing else of the tenant from being decided', async () => {
  const leftovers = Array.from({ length: 3 }, (): SettlingBlob => {
    const sha256 = randomBytes(32).toString('hex')
    return { tenantId, sha256, entry: `${sha256}.${randomBytes(16).toString('hex')}` }
  })
  const finished: SettlingBlob[] = []
  const blobs: BlobStore = {
    ...unused,
    listSettling: async () => await Promise.resolve(leftovers),
    remove: async () => await Promise.resolve(),
    finish: async (blob) => {
      if (blob === leftovers[0]) await notHere()
      finished.push(blob)
    },
  }
  const { lines, logger } = aLog()
  const db = { write: async <T>(_tenant: unknown, work: (tx: Tx) => Promise<T>) => await work(tx) }
  const parts = { db, blobs, afterwards: openAfterwards(logger) }
  const settling = openSettling(parts, { abandonedAfterMs: 1 }, { logger, now: Date.now })
  await settling.look(context, new AbortController().signal)
  expect(finished).toEqual(leftovers.slice(1))
  expect(lines.filter((line) => line.includes('settling_failed'))).toHaveLength(1)
})

test('what a sweep cannot do keeps none of the rest from being done', async () => {
  const seen: ReadonlySet<string>[] = []
  const { lines, logger } = aLog()
  const { stop } = await sweepRegularly(
    {
      blobs: { ...unused, listUnsettled: async () => await Promise.resolve(new Set([tenantId])) },
      partials: { append: notHere, seal: notHere, read: none, remove: notHere, sweep: notHere },
      settling: { see: (tenants) => seen.push(tenants) },
    },
    { abandonedAfterMs: 1, resumableForMs: 1, sweepEveryMs: 3_600_000 },
    { logger, now: Date.now },
  )
  await stop()
  expect(seen).toEqual([new Set([tenantId])])
  expect(lines.filter((line) => line.includes('sweep_failed'))).toHaveLength(2)
})
