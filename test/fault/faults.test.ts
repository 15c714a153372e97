import { setTimeout as delay } from 'node:timers/promises'
import { leaseMs } from '@postern/contracts/internal'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Churn, type Revocation, prepareChurn } from '../support/churn.ts'
import { type Fault, createLinks, faultsOf } from '../support/nemesis.ts'
import { costBetween, findViolations, findWrongWrites } from '../support/promises.ts'
import { type Traffic, startTraffic } from '../support/traffic.ts'

/**
 * Every fault under a steady load, while keys and tenants change. In `npm test` a fault lasts only as long as it needs to
 * show what it does; `npm run test:faults` has all of them for longer, and then in pairs.
 */
const isLong = process.env['POSTERN_FAULTS'] === 'long'
const singleMs = Number(process.env['POSTERN_FAULT_MS'] ?? (isLong ? 8000 : 700))
const pairMs = Number(process.env['POSTERN_FAULT_PAIR_MS'] ?? 3000)
const gatewayCount = 3
const operations = ['whoami', 'list', 'create'] as const
const perSecond = 100
/** The protocol's own bound on a revocation: a lease granted before it has then run out, whatever became of its gateway. */
const boundMs = leaseMs + 500
/** For a process that is to answer by then, on a machine that has no processor to spare. */
const slackMs = 1500

/** Shorter, these would end before a lease does. */
const outlastingLeases: ReadonlySet<string> = new Set([
  'gateway-2 frozen, and deaf when it wakes',
  'gateway-2 frozen',
  'keys frozen',
  'gateway-3 cut off from keys and Redis',
  'gateway-3 cut off from keys',
  'network from keys to gateway-3 silent',
  'network from keys to database silent both ways',
])
/** In `npm test` another fault speaks for each of these. */
const inLongFormOnly: ReadonlySet<string> = new Set([
  'gateway-2 frozen',
  'findings frozen',
  'Redis frozen',
  'gateway-3 cut off from keys',
  'network from gateway-3 to keys silent',
  'network from keys to redis silent both ways',
  'network from database to keys silent',
  'findings cut off from database',
])

const links = createLinks()
const faults = faultsOf(() => stack, links)
interface Trial {
  readonly name: string
  readonly applied: readonly Fault[]
  readonly lastsMs: number
}

function trial(lastsMs: number, ...applied: readonly Fault[]): Trial {
  return { name: applied.map(({ name }) => name).join(' + ') || 'nothing at all', applied, lastsMs }
}

/** No fault, each by itself and, in the long form, any two that concern different parts. */
function planTrials(): Trial[] {
  const singles = faults
    .filter(({ name }) => isLong || !inLongFormOnly.has(name))
    .map((fault) => trial(outlastingLeases.has(fault.name) ? Math.max(singleMs, leaseMs + 500) : singleMs, fault))
  const pairs = faults.flatMap((fault, index) =>
    faults.slice(index + 1).flatMap((other) => (other.part === fault.part ? [] : [trial(pairMs, fault, other)])),
  )
  return [trial(singleMs), ...singles, ...(isLong ? pairs : [])]
}

let stack: TestStack
let traffic: Traffic
let churn: Churn
/** Requests of the history that have been checked. */
let checked = 0

beforeAll(async () => {
  stack = await startTestStack({ gateways: gatewayCount, route: links.route })
  traffic = startTraffic({ gateways: stack.gateways, perSecond })
  churn = await prepareChurn(stack, traffic)
  // Processes that have just started have connections to open, all at once.
  await recovered(performance.now())
  await churn.start()
})

afterAll(async () => {
  await stack.stop()
  await links.close()
})

/** Checks all that has ended since it was last called. */
function expectPromisesKept(): void {
  const { keys, changes } = churn
  const requests = traffic.requests.slice(checked)
  checked = traffic.requests.length
  expect(findViolations({ requests, keys, changes })).toEqual([])
}

/** Resolves when every gateway has carried out every operation that `isMeant` in a request begun after `since`. */
async function succeeded(since: number, isMeant: Fault['spares'] = () => true): Promise<void> {
  const streams = stack.gateways.flatMap((gateway, index) =>
    operations.flatMap((operation) => (isMeant(index, operation) ? [{ gateway, operation }] : [])),
  )
  await Promise.all(
    streams.map(
      async ({ gateway, operation }) =>
        await traffic.ended(`${operation} succeeds at ${gateway}`, (request) => {
          const isOfStream = request.gateway === gateway && request.operation === operation
          return isOfStream && request.startedAt > since && request.status >= 200 && request.status < 300
        }),
    ),
  )
}

async function recovered(healedAt: number): Promise<void> {
  await succeeded(healedAt)
  let inARow = 0
  await traffic.ended('failures cease', ({ status }) => {
    inARow = status === 0 || status >= 500 ? 0 : inARow + 1
    return inARow >= 30
  })
}

/** While a gateway is frozen: revokes a key that it knows, and waits until requests with the dead key stand before it. */
async function revokeBeforeFrozen(gateway: string, revoke: () => Promise<Revocation>): Promise<Revocation> {
  const revocation = await revoke()
  for (let count = 0; count < 2; count += 1) {
    await traffic.sent('a revoked key at the frozen gateway', (sent) => {
      return sent.gateway === gateway && sent.keyId === revocation.change.of
    })
  }
  return revocation
}

async function expectWithstood({ name, applied, lastsMs }: Trial): Promise<void> {
  const from = performance.now()
  const frozen =
    applied.length === 1 ? stack.gateways.find((_url, index) => index === applied[0]?.freezesGateway) : undefined
  const revoke = frozen === undefined ? undefined : await churn.takeVictim()
  let beforeFrozen: Revocation | undefined
  try {
    for (const fault of applied) await fault.apply()
    const appliedAt = performance.now()
    const [revocation] = await Promise.all([
      frozen === undefined || revoke === undefined ? undefined : revokeBeforeFrozen(frozen, revoke),
      // What has nothing to do with the fault goes on while it lasts, however long that takes to be seen.
      succeeded(appliedAt, (gateway, operation) => applied.every(({ spares }) => spares(gateway, operation))),
      delay(lastsMs),
    ])
    beforeFrozen = revocation
  } finally {
    for (const fault of applied.toReversed()) await fault.heal()
  }
  const healedAt = performance.now()
  await recovered(healedAt)
  await churn.revoked(2, from)
  const to = performance.now()

  const cost = costBetween(traffic.requests, from, to)
  const revocations = churn.revocations.filter(
    ({ change }) => change.calledAt > from && change.returnedAt !== undefined && change.returnedAt <= to,
  )
  const waits = revocations.map(({ change }) => (change.returnedAt ?? 0) - change.calledAt)
  const waitedMs = Math.max(...revocations.map(({ enforcement }) => enforcement?.waited_ms ?? 0))
  const attempts = revocations.reduce((sum, revocation) => sum + revocation.attempts, 0)
  const fenced = revocations.filter(({ enforcement }) => (enforcement?.fenced ?? 0) > 0).length
  process.stdout.write(
    `fault: ${name}: ${cost.requests} requests in ${seconds(to - from)}, ` +
      `failed ${JSON.stringify(cost.failed)}, longest gap ${seconds(cost.longestGapMs)}, recovered ${seconds(to - healedAt)} after it; ` +
      `${revocations.length} revocations (${attempts} calls, ${fenced} with a gateway fenced), longest ${seconds(Math.max(...waits))}\n`,
  )

  expectPromisesKept()
  expect(waitedMs).toBeLessThanOrEqual(boundMs + slackMs)
  const ended = applied.flatMap(({ endsGateway }) => (endsGateway === undefined ? [] : [stack.gateways[endsGateway]]))
  const unanswered = traffic.requests.filter(({ status, startedAt }) => status === 0 && startedAt >= from)
  expect(unanswered.filter(({ gateway }) => !ended.includes(gateway))).toEqual([])
  if (beforeFrozen !== undefined) {
    const { change, enforcement } = beforeFrozen
    // A gateway that had no lease when it was frozen, on a very busy machine, needs no fence.
    if (enforcement?.gateways === gatewayCount) expect(enforcement.fenced).toBe(1)
    expect(enforcement?.confirmed).toBeLessThan(gatewayCount)
    expect((change.returnedAt ?? Infinity) - change.calledAt).toBeLessThanOrEqual(boundMs + slackMs)
    const woken = traffic.requests.filter(
      ({ keyId, gateway, startedAt, endedAt }) =>
        keyId === change.of &&
        gateway === frozen &&
        startedAt > (change.returnedAt ?? Infinity) &&
        startedAt < healedAt &&
        endedAt > healedAt,
    )
    expect(woken.length).toBeGreaterThanOrEqual(2)
    // Refused; or, while it could ask nobody, not decided.
    const refusals = new Set(woken.map(({ code }) => code ?? 'accepted'))
    expect([...refusals].filter((code) => code !== 'key_revoked' && code !== 'auth_unavailable')).toEqual([])
  }
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(2)} s`
}

const longestTestMs = 300_000

describe('no promise is broken, no write is lost and all is well again after', () => {
  test.each(planTrials())('$name', async (planned) => await expectWithstood(planned), longestTestMs)
})

describe('after all faults', () => {
  test(
    'every accepted write is there once, and no refused one is',
    async () => {
      await churn.stop()
      await traffic.stop()
      expectPromisesKept()
      const stored = await readFindings()
      expect(findWrongWrites(traffic, stored)).toEqual([])
      const accepted = traffic.requests.filter(({ operation, status }) => operation === 'create' && status === 201)
      process.stdout.write(
        `faults: ${traffic.requests.length} requests, ${accepted.length} accepted writes, ${stored.size} findings, ` +
          `${churn.changes.length} changes of ${churn.keys.length} keys\n`,
      )
      expect(accepted.length).toBeGreaterThan(100)
    },
    longestTestMs,
  )

  test('no process has met with what it did not expect', async () => {
    const logs = await stack.logs()
    const crashes = logs.split('\n').filter((line) => /"event":"(?:request_crashed|answer_not_in_contract)"/.test(line))
    expect(crashes).toEqual([])
  })
})

async function readFindings(): Promise<Map<string, { tenantId: string; title: string }[]>> {
  const client = new Client({ connectionString: stack.database.url('superuser') })
  await client.connect()
  try {
    const { rows } = await client.query<{ tenantId: string; title: string; externalId: string }>(
      `select tenant_id as "tenantId", title, external_id as "externalId" from findings.finding`,
    )
    return Map.groupBy(rows, ({ externalId }) => externalId)
  } finally {
    await client.end()
  }
}
