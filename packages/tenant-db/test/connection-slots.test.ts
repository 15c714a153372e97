import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createConnectionSlots } from '../src/connection-slots.ts'
import { DatabaseUnavailableError } from '../src/index.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a quarter of the connections is reserved for tenants without one', () => {
  const places = createConnectionSlots(8, 1000)
  for (let at = 0; at < 6; at += 1) expect(places.enter('a', 'write')).toBeUndefined()
  void places.enter('a', 'write')?.catch(() => undefined)
  expect(places.waiting).toBe(1)
  expect(places.enter('b', 'write')).toBeUndefined()
  expect(places.enter('c', 'write')).toBeUndefined()
})

test('reads of one tenant use a third of the connections and block neither its writes nor other tenants', async () => {
  const places = createConnectionSlots(24, 1000)
  for (let at = 0; at < 8; at += 1) expect(places.enter('a', 'read')).toBeUndefined()
  const ninth = places.enter('a', 'read')
  expect(ninth).toBeInstanceOf(Promise)
  expect(places.enter('a', 'write')).toBeUndefined()
  expect(places.enter('b', 'read')).toBeUndefined()
  // A finished write frees no place for a read.
  places.leave('a', 'write')
  expect(places.waiting).toBe(1)
  places.leave('a', 'read')
  await ninth
  expect(places.waiting).toBe(0)
})

test('waiting tenants are served in turn', async () => {
  const places = createConnectionSlots(1, 1000)
  expect(places.enter('a', 'write')).toBeUndefined()
  const served: string[] = []
  const wait = async (tenant: string, name: string): Promise<void> => {
    await places.enter(tenant, 'write')
    served.push(name)
    places.leave(tenant, 'write')
  }
  const all = [wait('a', 'a1'), wait('a', 'a2'), wait('b', 'b1')]
  places.leave('a', 'write')
  await Promise.all(all)
  expect(served).toEqual(['a1', 'b1', 'a2'])
  expect(places.waiting).toBe(0)
})

test('a caller that waits too long is rejected and takes no slot', async () => {
  const places = createConnectionSlots(1, 1000)
  expect(places.enter('a', 'write')).toBeUndefined()
  const outcome = places.enter('b', 'write')?.catch((error: unknown) => error)
  vi.advanceTimersByTime(1000)
  expect(await outcome).toBeInstanceOf(DatabaseUnavailableError)
  places.leave('a', 'write')
  expect(places.enter('c', 'write')).toBeUndefined()
})
