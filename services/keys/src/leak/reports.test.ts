import { generateKey } from '@postern/api-key'
import { createLogger, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { expect, test } from 'vitest'
import { openLeakReports } from './reports.ts'

const reporter = { id: '203.0.113.7', label: '203.0.113.7', address: '203.0.113.7' }

function setUp({ known = [], enforce }: { known?: readonly string[]; enforce: (hash: string) => Promise<null> }) {
  const log: string[] = []
  const logger = createLogger({ service: 'keys', level: 'trace', write: (line) => void log.push(line) })
  const query = async ({ values }: { readonly values: readonly unknown[] }): Promise<unknown[]> =>
    known
      .filter((hash) => Array.isArray(values[0]) && values[0].includes(hash))
      .map((hash, at) => ({ hash, id: `key-${at}`, tenantId: 'tenant', isRevokedNow: true }))
  const db = {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only this method is called
    system: async <T>(work: (tx: Tx) => Promise<T>) => await work({ query } as unknown as Tx),
  }
  const leaks = openLeakReports({ db, enforcer: { enforceKey: enforce }, logger, waitMs: 5 })
  return { leaks, log }
}

test('the answer does not wait for an enforcement that never ends', async () => {
  const { value, hash } = generateKey()
  const { leaks } = setUp({ known: [hash], enforce: async () => await new Promise(() => undefined) })
  expect(await leaks.report({ found: [{ value }], reporter })).toMatchObject({ values: 1 })
})

test('an unconfirmed enforcement looks like an unknown value, and is repeated until it is confirmed', async () => {
  const { value, hash } = generateKey()
  const asked: string[] = []
  const state = { fails: true }
  const { leaks, log } = setUp({
    known: [hash],
    enforce: async (of) => {
      asked.push(of)
      if (state.fails) throw problem('revocation_unconfirmed')
      return null
    },
  })
  const [found, unknown] = [
    await leaks.report({ found: [{ value }], reporter }),
    await leaks.report({ found: [{ value: generateKey().value }], reporter }),
  ]
  expect(Object.keys(found)).toEqual(Object.keys(unknown))
  await leaks.retry()
  expect(asked).toEqual([hash, hash])
  expect(log.join('')).toContain('leak_unconfirmed')
  expect(log.join('')).not.toContain('leak_enforced')
  state.fails = false
  await leaks.retry()
  expect(log.join('')).toContain('leak_enforced')
  await leaks.retry()
  expect(asked).toHaveLength(3)
  expect(log.join('')).not.toContain(hash)
})

test('a report that could not be stored is rejected, after the same time', async () => {
  const logger = createLogger({ service: 'keys', level: 'fatal', write: () => undefined })
  const db = { system: async () => await Promise.reject(new Error('disk full')) }
  const leaks = openLeakReports({ db, enforcer: { enforceKey: async () => null }, logger, waitMs: 50 })
  const startedAt = performance.now()
  await expect(leaks.report({ found: [{ value: generateKey().value }], reporter })).rejects.toMatchObject({
    code: 'service_unavailable',
  })
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(49)
})
