/**
 * @promise Revocation: A wrong clock, of a host or of PostgreSQL, never lets a revoked or expired key in.
 * @alsoShownBy services/gateway/src/authenticate/decide.test.ts, services/keys/test/prune-log.test.ts, npm run test:faults
 */

import type { ChangeKind } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { settle } from './builders.ts'
import { type GatewayUnderTest, World } from './conformance-world.ts'

/*
 * PostgreSQL's clock is set, and set right again, while gateways start, are cut off or serve on. The schedules beside this
 * need many steps in one order to come there; here they are, one after another.
 */

const hourMs = 3_600_000

/** Starts two gateways that know the first key. Redis has its old record and never gets a tombstone. */
async function knownKey() {
  const world = new World({}, [1, 1], false)
  const [first, second] = world.gateways
  const [key] = world.keys.keys
  if (first === undefined || second === undefined || key === undefined) throw new Error('an empty world')
  world.pass(500)
  await renew(world)
  await request(world, first)
  for (const record of world.fills.splice(0)) world.redis.store(record, world.redisNow)
  return { world, first, second, key }
}

async function renew(world: World, gateways: readonly GatewayUnderTest[] = world.gateways): Promise<void> {
  world.pass(500)
  for (const gateway of gateways) await world.quiet(gateway)
}

async function request(world: World, gateway: GatewayUnderTest): Promise<void> {
  gateway.request(0)
  await settle()
  await world.quiet(gateway)
}

async function requestOfAll(world: World): Promise<string[]> {
  for (const gateway of world.gateways) await request(world, gateway)
  return world.violations
}

const kinds: readonly ChangeKind[] = ['tenant', 'narrow', 'revoke']

describe.each(kinds)('a change (%s) remains in force for a gateway', (kind) => {
  type Known = Awaited<ReturnType<typeof knownKey>>

  /** The change, with its success. */
  async function change(
    { world, key }: Known,
    { renewing = world.gateways, isUsed = true }: { renewing?: readonly GatewayUnderTest[]; isUsed?: boolean } = {},
  ): Promise<void> {
    world.keys.begin(kind, key)
    world.commit()
    await renew(world, renewing)
    world.pass(world.keys.lastEnd() - world.keys.time)
    world.look({ isUsed })
    expect(world.waiting).toEqual([])
  }

  test('that starts while the clock is ahead', async () => {
    const known = await knownKey()
    const { world, first } = known
    await change(known)
    world.keys.step(hourMs)
    world.restart(first, true)
    await renew(world)
    world.keys.step(-hourMs)
    await renew(world)
    expect(await requestOfAll(world)).toEqual([])
  })

  test('that starts when the clock is right again, and the log was pruned meanwhile', async () => {
    const known = await knownKey()
    const { world, first } = known
    await change(known)
    world.keys.step(hourMs)
    world.keys.prune()
    world.keys.step(-hourMs)
    world.restart(first, true)
    await renew(world)
    expect(await requestOfAll(world)).toEqual([])
  })

  test('that starts after a change which was made while the clock was behind', async () => {
    const known = await knownKey()
    const { world, first } = known
    world.keys.step(-hourMs)
    await renew(world)
    await change(known)
    world.keys.step(hourMs)
    world.keys.prune()
    world.restart(first, true)
    await renew(world)
    expect(await requestOfAll(world)).toEqual([])
  })

  test('that was disconnected, and returns while the clock is ahead', async () => {
    const known = await knownKey()
    const { world, second } = known
    await change(known, { renewing: [second] })
    world.keys.step(hourMs)
    world.keys.prune()
    await renew(world)
    world.keys.step(-hourMs)
    await renew(world)
    expect(await requestOfAll(world)).toEqual([])
  })

  test('that serves on while the clock is ahead for long, and is set back to before the change', async () => {
    const known = await knownKey()
    const { world } = known
    await change(known, { isUsed: false })
    world.keys.step(hourMs)
    for (let third = 0; third < 3; third += 1) {
      world.pass(500_000)
      await renew(world)
      for (const { watermarks } of world.gateways) watermarks.prune()
    }
    world.keys.step(-hourMs - 1_500_000)
    await renew(world)
    expect(await requestOfAll(world)).toEqual([])
  })
})
