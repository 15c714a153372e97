import { describe, expect, test } from 'vitest'
import { settle } from './builders.ts'
import { type GatewayUnderTest, type Sabotage, World } from './conformance-world.ts'

/*
 * Cases of the model (verification/model) that random schedules rarely reach: each step with the code, and without the
 * part that protects it.
 */

/** Two gateways that hold leases and know the first key, whose record is in Redis. */
async function start(sabotage: Sabotage) {
  const world = new World(sabotage, [1, 1], false)
  const [first, second] = world.gateways
  if (first === undefined || second === undefined) throw new Error('an empty world')
  await renew(world, first, second)
  await request(world, first)
  for (const record of world.fills.splice(0)) world.redis.store(record, world.redisNow)
  return { world, first, second }
}

/** Half a second later each is as far as it can be. */
async function renew(world: World, ...gateways: GatewayUnderTest[]): Promise<void> {
  world.pass(500)
  for (const gateway of gateways) await world.quiet(gateway)
}

/** A renewal is sent, and gets as far as this. */
async function send(world: World, gateway: GatewayUnderTest, stages: number): Promise<void> {
  gateway.fire()
  await settle()
  await advance(world, gateway, stages)
}

async function advance(world: World, from: GatewayUnderTest, stages: number): Promise<void> {
  for (let stage = 0; stage < stages; stage += 1) {
    const call = world.calls.find((each) => each.from === from)
    if (call === undefined) throw new Error('nothing is under way')
    world.advance(call)
    await settle()
  }
}

/** The key is revoked, and the tombstone lost. */
function revoke(world: World): void {
  const [key] = world.keys.keys
  if (key !== undefined) world.keys.begin('revoke', key)
  world.commit()
}

async function request(world: World, gateway: GatewayUnderTest): Promise<void> {
  gateway.request(0)
  await settle()
  await world.quiet(gateway)
}

type Way = (sabotage: Sabotage) => Promise<string[]>

const ways: Readonly<Record<string, readonly [Sabotage, Way]>> = {
  'the lease that a process gave back late is that of the next': [
    { keepsIdentity: true },
    async (sabotage) => {
      const { world, first, second } = await start(sabotage)
      world.restart(first, true)
      const [next = first] = world.gateways
      await renew(world, next, second)
      revoke(world)
      await advance(world, first, 1)
      await renew(world, second)
      world.look({ isUsed: false })
      await request(world, next)
      return world.violations
    },
  ],
  'an answer to a process that has ended is taken by the next': [
    { takesAnswersOfDead: true },
    async (sabotage) => {
      const { world, first, second } = await start(sabotage)
      world.pass(500)
      await send(world, first, 3)
      world.pass(900)
      world.restart(first, false)
      const [next = first] = world.gateways
      await advance(world, first, 1)
      revoke(world)
      await renew(world, second)
      // Two seconds after the lease of the one that has ended was granted.
      world.pass(600)
      world.look({ isUsed: false })
      await request(world, next)
      return world.violations
    },
  ],
  'the log is read before the lease is committed': [
    { readsLogFirst: true },
    async (sabotage) => {
      const { world, first, second } = await start(sabotage)
      for (let half = 0; half < 5; half += 1) await renew(world, second)
      await send(world, first, 2)
      revoke(world)
      await renew(world, second)
      world.look({ isUsed: false })
      await advance(world, first, 2)
      await request(world, first)
      return world.violations
    },
  ],
}

describe.each(Object.entries(ways))('where %s', (_what, [sabotage, way]) => {
  test('a revoked key is accepted', async () => {
    expect(await way(sabotage)).toContain('accepted after the success of its revoke')
  })

  test('and the unchanged code rejects it', async () => {
    expect(await way({})).toEqual([])
  })
})
