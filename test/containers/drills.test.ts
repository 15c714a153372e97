import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { rotateRing, ringNames } from '@postern/installation'
import { type Compose, doubled } from './compose.ts'
import { findInstallation } from './installation.ts'
import { type Failure, type Load, startLoad } from './load.ts'
import { startTestStack } from './testing.ts'

let system: Compose
let keys: string[]
let load: Load

beforeAll(async () => {
  system = findInstallation()
  const stack = await startTestStack()
  const tenants = [await stack.createTenant(), await stack.createTenant()]
  const made: string[] = []
  for (const tenant of [...tenants, ...tenants, ...tenants]) {
    made.push((await stack.createKey(tenant, { scopes: ['*'] })).key)
  }
  keys = made
}, 120_000)

beforeEach(() => {
  load = startLoad({ targets: system.installation.gateways, keys, perSecond: 30 })
})

afterAll(async () => {
  await load?.stop()
})

/** Ends the load and gives what failed. */
async function failuresOf(running: Load): Promise<readonly Failure[]> {
  const failures = await running.stop()
  process.stdout.write(`  ${running.succeeded} requests succeeded, ${failures.length} failed\n`)
  return failures
}

async function replace(container: string): Promise<void> {
  await system.docker(['restart', '--time', '40', container])
  await system.waitUntilReady(container)
}

/** Replaces the first of each service together, then the second, then the gateways. */
async function replaceAll(): Promise<void> {
  for (const number of [0, 1]) {
    const containers = await Promise.all(doubled.map(async (name) => (await system.containers(name))[number] ?? ''))
    await Promise.all(containers.map(replace))
  }
  for (const { name } of system.installation.gateways) await replace((await system.containers(name))[0] ?? '')
}

describe('no request fails', () => {
  test.each([...doubled])('while every process of %s is replaced, one after the other', async (name) => {
    await load.more(30)
    for (const container of await system.containers(name)) await replace(container)
    await load.more(30)
    expect(await failuresOf(load)).toEqual([])
  })

  test('while every gateway is replaced, one after the other', async () => {
    await load.more(30)
    for (const { name } of system.installation.gateways) await replace((await system.containers(name))[0] ?? '')
    await load.more(30)
    expect(await failuresOf(load)).toEqual([])
  })

  test('while Redis restarts, and comes back empty', async () => {
    await load.more(30)
    const [redis = ''] = await system.containers('redis')
    await system.docker(['restart', '--time', '5', redis])
    await load.more(60)
    expect(await failuresOf(load)).toEqual([])
  })

  test('while every ring of secrets is replaced in three steps', async () => {
    await load.more(30)
    for (const step of ['add', 'promote', 'retire'] as const) {
      for (const ring of ringNames) await rotateRing(system.installation.secrets, ring, step)
      await system.handOutSecrets()
      // PostgreSQL learns the new key of assertions before anybody mints with it.
      await system.compose(['run', '--rm', '--no-deps', 'migrate'])
      await replaceAll()
    }
    await system.compose([
      'run',
      '--rm',
      '--no-deps',
      'migrate',
      'packages/cli/dist/main.js',
      'migrate',
      '--retire-assertion-keys',
    ])
    await load.more(30)
    expect(await failuresOf(load)).toEqual([])
  })
})

/** What may be said while something is broken: that it is not known, or that it broke off. Never that a key is bad. */
const honest = new Set(['502', '503', '504', 'UND_ERR_SOCKET', 'ECONNRESET', 'ECONNREFUSED', 'UND_ERR_HEADERS_TIMEOUT'])

describe('what is killed comes back by itself, and until then nothing false is said', () => {
  const parts = ['gateway', ...doubled, 'pgbouncer', 'redis', 'postgres'] as const
  test.each(parts)('%s is killed', async (name) => {
    await load.more(30)
    const [container = ''] = await system.containers(name)
    await kill(container)
    await isRunning(container)
    if (name === 'gateway' || doubled.some((each) => each === name)) await system.waitUntilReady(container)
    for (const gateway of system.installation.gateways) {
      await system.waitUntilReady((await system.containers(gateway.name))[0] ?? '')
    }
    await load.more(60)
    const before = load.failures.length
    // All is well again: nothing more fails.
    await load.more(60)
    expect(load.failures.slice(before)).toEqual([])
    const failures = await failuresOf(load)
    expect(failures.filter(({ outcome }) => !honest.has(outcome))).toEqual([])
  })

  test('PostgreSQL is restarted in order', async () => {
    await load.more(30)
    const [container = ''] = await system.containers('postgres')
    await system.docker(['restart', '--time', '60', container])
    await load.more(60)
    const before = load.failures.length
    await load.more(60)
    expect(load.failures.slice(before)).toEqual([])
    expect((await failuresOf(load)).filter(({ outcome }) => !honest.has(outcome))).toEqual([])
  })
})

/** Kills the process and not the container: Docker does not start again what it was told to kill. */
async function kill(container: string): Promise<void> {
  const pid = Number(await system.docker(['inspect', '--format', '{{.State.Pid}}', container]))
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    await system.docker(['kill', container])
    await system.docker(['start', container])
  }
}

async function isRunning(container: string): Promise<void> {
  await expect
    .poll(async () => await system.docker(['inspect', '--format', '{{.State.Running}}', container]), {
      timeout: 60_000,
      interval: 200,
    })
    .toBe('true')
}
