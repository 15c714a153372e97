import { createLogger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { expect, test, vi } from 'vitest'
import type { Universe } from '../push/universe.ts'
import { deleteEndedRuns } from './delete-ended-runs.ts'

test('a caller behind finished work waits at most two seconds', async () => {
  let at = 0
  const write = vi.fn<() => Promise<number>>(async () => {
    at += 900
    return 1000
  })
  // There is always more to remove.
  const db = { write } as unknown as TenantDb
  const input = { context: {} as never, requestId: 'r', log: createLogger({ service: 'sync', level: 'silent' }) }
  const universe = {} as unknown as Universe
  await deleteEndedRuns({ db, universe }, input, { connectorId: 'c', runIds: ['r'] }, () => at)
  expect(write).toHaveBeenCalledTimes(3)
})
