/**
 * @promise Operation: Replacing any part, and rotating every secret, fails no request; a killed process restarts automatically.
 * @alsoShownBy npm run test:containers
 */

import { setTimeout as delay } from 'node:timers/promises'
import {
  type RotationStep,
  redisLogins,
  ringNames,
  rotateRing,
  rotateSecret,
  rotationSteps,
} from '@postern/installation'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Churn, prepareChurn } from '../../test/support/churn.ts'
import {
  createUnlimitedKey,
  documentLongFindings,
  pipelineLargePages,
  readLargePages,
} from '../../test/support/large-pages.ts'
import {
  type Operation,
  costBetween,
  findViolations,
  findWrongWrites,
  isOutcomeOpen,
} from '../../test/support/promises.ts'
import { type Traffic, startTraffic } from '../../test/support/traffic.ts'
import { type Balancer, startBalancer } from './balancer.ts'
import { findWholeBlobs } from './bucket.ts'
import { findCauses } from './causes.ts'
import {
  certified,
  containersOfCertified,
  issuedCertificates,
  renewCertificates,
  shownCertificates,
} from './certificates.ts'
import { type Compose, doubled } from './compose.ts'
import { type DrillStack, openDrillStack, queryAsSuperuser } from './drill-stack.ts'
import { findInstallation } from './installation.ts'
import { watchMachine } from './machine.ts'
import { readRedisPassword, applyRedisUsers } from './redis-administrator.ts'

/** Operations of every service, some of them across two; half of them write. */
const sequence: readonly Operation[] = [
  'whoami',
  'list',
  'entities',
  'create',
  'connectors',
  'upload',
  'whoami',
  'push',
]
const operations = [...new Set(sequence)]
const scopes = ['read:findings', 'write:findings', 'read:universe', 'write:evidence', 'admin:sync'] as const
const perSecond = Number(process.env['POSTERN_DRILL_RATE'] ?? 15)
const longestTestMs = 900_000
/** Duration of the attack. */
const attackMs = 30_000

let system: Compose
let balancer: Balancer
let stack: DrillStack
let traffic: Traffic
let churn: Churn
/** The number of requests that were already checked. */
let checked = 0

beforeAll(async () => {
  system = findInstallation()
  const { gateways } = system.installation
  balancer = startBalancer(gateways)
  stack = await openDrillStack(system)
  traffic = startTraffic({ gateways: gateways.map(({ url }) => url), perSecond, sequence, isReady: balancer.isReady })
  churn = await prepareChurn(stack, traffic, { scopes, restMs: 1500 })
  await recovered(performance.now())
  await churn.start()
}, longestTestMs)

afterAll(async () => {
  await balancer.stop()
  await stack.stop()
})

function isAccepted(status: number): boolean {
  return status >= 200 && status < 300
}

/**
 * Resolves when every gateway has completed every operation in a request started after `since`, and no more requests
 * fail.
 */
async function recovered(since: number): Promise<void> {
  const streams = stack.gateways.flatMap((gateway) => operations.map((operation) => ({ gateway, operation })))
  await Promise.all(
    streams.map(
      async ({ gateway, operation }) =>
        await traffic.ended(
          `${operation} succeeds at ${gateway}`,
          (request) =>
            request.gateway === gateway &&
            request.operation === operation &&
            request.startedAt > since &&
            isAccepted(request.status),
        ),
    ),
  )
  let inARow = 0
  await traffic.ended('failures cease', ({ status }) => {
    inARow = status === 0 || status >= 500 ? 0 : inARow + 1
    return inARow >= 60
  })
}

interface DrillOutcome {
  /** The number of failed requests by code. */
  readonly failed: Readonly<Record<string, number>>
  /** The first failures and the errors of processes; empty without failures. */
  readonly circumstances: string
}

/** Runs a disruption under load, prints its cost, and checks every promise. */
async function drill(name: string, work: () => Promise<void>): Promise<DrillOutcome> {
  await recovered(performance.now())
  const [from, fromWall] = [performance.now(), new Date()]
  const machine = watchMachine()
  await work()
  const doneAt = performance.now()
  await recovered(doneAt)
  await churn.revoked(2, from)
  const to = performance.now()
  const served = machine()
  // From the view of a client that uses any ready gateway.
  const asOne = traffic.requests
    .filter((request) => !isOutcomeOpen(request, churn.changes))
    .map((request) => ({ ...request, gateway: 'any' }))
  const { requests, failed, longestGapMs } = costBetween(asOne, from, to)
  process.stdout.write(
    `drill: ${name}: ${requests} requests in ${seconds(to - from)}, failed ${JSON.stringify(failed)}, ` +
      `longest gap ${seconds(longestGapMs)}, ${slowest(from, to)}, all well again ${seconds(to - doneAt)} after it; ` +
      `machine: ${Math.round(served.stolen * 100)} % stolen, full for ${seconds(served.fullMs)}\n`,
  )
  const circumstances =
    Object.keys(failed).length > 0 ? `${failures(from, to)}${await findCauses(system, fromWall)}` : ''
  process.stdout.write(circumstances)
  expectPromisesKept()
  return { failed, circumstances }
}

/** Formats the slow response times. */
function slowest(from: number, to: number): string {
  const took = traffic.requests
    .filter(({ startedAt }) => startedAt >= from && startedAt <= to)
    .map(({ startedAt, endedAt }) => endedAt - startedAt)
    .toSorted((one, other) => other - one)
  const [tenth = 0, hundredth = 0, first = 0] = [10, 100, took.length + 1].map(
    (part) => took[Math.floor(took.length / part)],
  )
  return `a tenth took over ${seconds(tenth)}, a hundredth over ${seconds(hundredth)}, the slowest ${seconds(first)}`
}

/** Formats the first failures: time, operation and result. */
function failures(from: number, to: number): string {
  return traffic.requests
    .filter(({ startedAt, status }) => startedAt >= from && startedAt <= to && (status === 0 || status >= 500))
    .slice(0, 8)
    .map(
      ({ startedAt, endedAt, operation, gateway, status, code = 'no answer', detail = '' }) =>
        `  ${seconds(startedAt - from)} into it, ${operation} at ${gateway}: ${status} ${code} after ${seconds(endedAt - startedAt)}, ${detail}\n`,
    )
    .join('')
}

/** Runs a drill during which no request may fail. */
async function expectNoFailure(name: string, work: () => Promise<void>): Promise<void> {
  const { failed, circumstances } = await drill(name, work)
  expect(failed, `${name}: no request fails\n${circumstances}`).toEqual({})
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(2)} s`
}

/** Checks all requests that ended since the last call. */
function expectPromisesKept(): void {
  const { keys, changes } = churn
  const requests = traffic.requests.slice(checked)
  checked = traffic.requests.length
  expect(findViolations({ requests, keys, changes })).toEqual([])
}

/** Stops the process with SIGTERM and starts it again. Resolves when it is ready. */
async function replace(container: string): Promise<void> {
  await system.docker(['restart', '--time', '40', container])
  await system.waitUntilReady(container)
}

async function replaceGateways(): Promise<void> {
  for (const { name } of system.installation.gateways) await replace((await system.containers(name))[0] ?? '')
}

/**
 * Replaces services, gateways and the console one by one. Starting several at once would overload a small machine, and
 * gateways would end requests whose keys they cannot confirm.
 */
async function replaceAll(): Promise<void> {
  for (const name of doubled) {
    for (const container of await system.containers(name)) await replace(container)
  }
  await replaceGateways()
  for (const container of await system.containers('console')) await replace(container)
}

async function migrate(...args: readonly string[]): Promise<void> {
  const command = args.length === 0 ? [] : ['packages/cli/dist/main.js', 'migrate', ...args]
  await system.compose(['run', '--rm', '--no-deps', 'migrate', ...command])
}

/** Passwords of services for PostgreSQL (through PgBouncer), Redis and the store, which rereads its file. */
const loginNames = ['keys', 'findings', 'universe', 'evidence', 'sync', 'store'] as const
const passwords = [...loginNames, ...redisLogins.map((name) => `redis-${name}`)].map((name) => `password-${name}`)

/** The keys that sign receipts and checkpoints. */
const signingKeys = ['POSTERN_RECEIPT_KEY', 'POSTERN_CHECKPOINT_KEY']

/** Runs one rotation step for every secret and restarts the readers. */
async function rotateAll(step: RotationStep): Promise<void> {
  const { secrets } = system.installation
  const password = await readRedisPassword(system)
  for (const ring of ringNames) await rotateRing(secrets, ring, step)
  for (const name of [...signingKeys, ...passwords]) await rotateSecret(secrets, name, step)
  await system.handOutSecrets()
  // PostgreSQL must know new assertion keys and passwords before they are used.
  await migrate()
  const [pgbouncer = ''] = await system.containers('pgbouncer')
  // Not with docker kill: some engine versions then treat the container as stopped and do not restart it.
  await system.docker(['exec', pgbouncer, 'bash', '-c', 'kill -HUP 1'])
  await applyRedisUsers(system, password)
  await replaceAll()
}

describe('no request fails', () => {
  test.each([...doubled])(
    'while the processes of %s are replaced one by one',
    async (name) => {
      await expectNoFailure(`${name} replaced`, async () => {
        for (const container of await system.containers(name)) await replace(container)
      })
    },
    longestTestMs,
  )

  test(
    'while the gateways are replaced one by one',
    async () => await expectNoFailure('gateways replaced', replaceGateways),
    longestTestMs,
  )

  test(
    'while Redis restarts without its data',
    async () => {
      await expectNoFailure('Redis restarted', async () => {
        const [redis = ''] = await system.containers('redis')
        await system.docker(['restart', '--time', '5', redis])
      })
    },
    longestTestMs,
  )

  test(
    'of another tenant while one key sends 600 requests for large pages ahead and reads none, and reads others over 190 connections',
    async () => {
      const key = await createUnlimitedKey(stack)
      const gateways = system.installation.gateways.map(({ url }) => url)
      const [gateway = ''] = gateways
      await documentLongFindings(gateway, key)
      await expectNoFailure('large pages', async () => {
        const unread = pipelineLargePages(gateway, key, { maxMs: attackMs })
        const readers = readLargePages(gateways, key, { count: 190, maxMs: attackMs })
        await delay(attackMs)
        await Promise.all([unread.stop(), readers.stop()])
        const answers = JSON.stringify(Object.fromEntries(readers.answers))
        process.stdout.write(`drill: large pages: the key's answers by status: ${answers}\n`)
        expect(readers.answers.get(200)).toBeGreaterThan(0)
      })
    },
    longestTestMs,
  )

  test(
    'while every certificate is renewed without restarts, and each server sends the new one',
    async () => {
      const before = await issuedCertificates(system)
      const started = await containersOfCertified(system)
      expect(started).toHaveLength(certified.length)
      expect(await shownCertificates(system)).toEqual(before)
      await expectNoFailure('certificates renewed', async () => await renewCertificates(system))
      const after = await issuedCertificates(system)
      for (const name of certified) expect(after[name]).not.toBe(before[name])
      expect(await shownCertificates(system)).toEqual(after)
      expect(await containersOfCertified(system)).toEqual(started)
    },
    longestTestMs,
  )

  test(
    'while every ring of secrets, every signing key and every password of a service is replaced in three steps',
    async () => {
      await expectNoFailure('every ring and password rotated', async () => {
        for (const step of rotationSteps) {
          if (step === 'retire') await system.operator('connectors', 'rewrap-secrets')
          await rotateAll(step)
        }
        await migrate('--retire-assertion-keys')
      })
      // Every service uses its second login, and none the first.
      const logins = await queryAsSuperuser(
        system,
        "select rolname, rolpassword is not null as accepted from pg_authid where rolname ~ '^postern_[a-z]+(_b)?$' and rolcanlogin",
      )
      const services = ['keys', 'findings', 'universe', 'evidence', 'sync']
      expect(Object.fromEntries(logins.map(({ rolname, accepted }) => [rolname, accepted]))).toEqual({
        postern_migrator: true,
        ...Object.fromEntries(services.map((name) => [`postern_${name}`, false])),
        ...Object.fromEntries(services.map((name) => [`postern_${name}_b`, true])),
      })
    },
    longestTestMs,
  )
})

describe('killed processes restart automatically, and no response is wrong in the meantime', () => {
  const parts = ['gateway', ...doubled, 'pgbouncer', 'redis', 'postgres', 'store'] as const
  test.each(parts)(
    '%s',
    async (name) => {
      const from = performance.now()
      await drill(`${name} killed`, async () => {
        const [container = ''] = await system.containers(name)
        await kill(container)
        await isRunning(container)
      })
      // Only clients of the killed gateway get no response. The store is needed only for evidence.
      if (name === 'store') {
        const others = traffic.requests.filter(
          ({ operation, startedAt }) => operation !== 'upload' && startedAt >= from,
        )
        expect(others.filter(({ status }) => status === 0 || status >= 500)).toEqual([])
      }
      const unanswered = traffic.requests.filter(({ status, startedAt }) => status === 0 && startedAt >= from)
      const killed = name === 'gateway' ? stack.gateways[0] : undefined
      expect(unanswered.filter(({ gateway }) => gateway !== killed)).toEqual([])
    },
    longestTestMs,
  )

  test(
    'console',
    async () => {
      await drill('console killed', async () => {
        const [container = ''] = await system.containers('console')
        await kill(container)
        await isRunning(container)
        await system.waitUntilReady(container)
      })
      const page = await fetch(system.installation.consoleUrl)
      expect(page.status).toBe(200)
      expect(await page.text()).toMatch(/<!doctype html>/i)
    },
    longestTestMs,
  )

  test.each(['postgres', 'pgbouncer', 'store'])(
    '%s, restarted in order',
    async (name) => {
      const from = performance.now()
      await drill(`${name} restarted`, async () => {
        const [container = ''] = await system.containers(name)
        const begun = performance.now()
        await system.docker(['restart', '--time', '60', container])
        // Its image's stop signal ends it before the time limit.
        expect(performance.now() - begun).toBeLessThan(55_000)
      })
      expect(traffic.requests.filter(({ status, startedAt }) => status === 0 && startedAt >= from)).toEqual([])
    },
    longestTestMs,
  )
})

describe('after all drills', () => {
  test(
    'every accepted write is stored once, and no rejected one is',
    async () => {
      await churn.stop()
      await traffic.stop()
      expectPromisesKept()
      const stored = await stack.readWrites()
      expect(findWrongWrites(traffic, stored)).toEqual([])
      const accepted = traffic.requests.filter(({ externalId, status }) => externalId !== undefined && status === 201)
      process.stdout.write(
        `drills: ${traffic.requests.length} requests, ${accepted.length} accepted writes, ${stored.size} stored, ` +
          `${churn.changes.length} changes of ${churn.keys.length} keys\n`,
      )
      expect(accepted.length).toBeGreaterThan(100)
    },
    longestTestMs,
  )

  test(
    'the store has the complete bytes of every file',
    async () => {
      const rows = await queryAsSuperuser(
        system,
        `select distinct tenant_id || ' ' || sha256 as blob from evidence.file`,
      )
      const whole = await findWholeBlobs(system)
      process.stdout.write(`drills: ${rows.length} blobs of evidence, ${whole.size} whole in the store\n`)
      expect(rows.length).toBeGreaterThan(10)
      expect(rows.filter(({ blob }) => !whole.has(String(blob)))).toEqual([])
    },
    longestTestMs,
  )
})

/** Kills the process, because Docker does not restart containers that were stopped with its own command. */
async function kill(container: string): Promise<void> {
  const pid = Number(await system.docker(['inspect', '--format', '{{.State.Pid}}', container]))
  if (system.installation.engine.own && pid > 0) {
    process.kill(pid, 'SIGKILL')
    await delay(500)
    return
  }
  await system.docker(['kill', container])
  await system.docker(['start', container])
}

async function isRunning(container: string): Promise<void> {
  await expect
    .poll(async () => await system.docker(['inspect', '--format', '{{.State.Running}}', container]), {
      timeout: 120_000,
      interval: 300,
    })
    .toBe('true')
}
