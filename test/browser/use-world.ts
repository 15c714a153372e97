import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type World, openWorld } from './world.ts'

/** Opens a world for the tests of a file. */
export function useWorld(options?: { readonly gateways?: number }): () => World {
  // A browser and a whole system on a machine that may be busy.
  vi.setConfig({ testTimeout: 240_000 })
  let world: World
  beforeAll(async () => {
    world = await openWorld(options)
  }, 600_000)
  afterAll(async () => await world.close())
  return () => world
}

/** The last test of a file with a world. */
export function testComplaints(world: () => World): void {
  test('no page caused an error or violated its content policy', () => {
    expect(world().complaints).toEqual([])
  })
}
