/**
 * @promise Tenants: No response contains data of another tenant, whatever a client requests.
 * @alsoShownBy npm run test:fuzz
 */

import { randomInt } from 'node:crypto'
import { type Route, routeTable } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import fc from 'fast-check'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { send } from '../../test/support/http.ts'
import { type RunningIssuer, startIssuer } from '../../test/support/issuer.ts'
import { type Fuzzer, createFuzzer, isUnsupported } from './fuzzer.ts'
import { spoilers } from './hostile.ts'
import { keepFuzzed, sumUp } from './keep.ts'
import { createPool, harvest, marker } from './pool.ts'
import { type Caller, type Draft, requestsFor } from './requests.ts'
import { populate } from './population.ts'
import { starters } from './starters.ts'
import { type Wrong, startStandIn, startProxyWithoutPointers, startAcceptingProxy, wrongs } from './stand-in.ts'
import { type Witness, openWitness } from './witness.ts'

/**
 * Generated requests for every operation against the whole system. `npm test` runs one round; `npm run test:fuzz` runs
 * rounds with new seeds for ten minutes.
 */
const minutes = Number(process.env['POSTERN_FUZZ_MINUTES'] ?? '0')
const seed = Number(process.env['POSTERN_FUZZ_SEED'] ?? randomInt(2 ** 31))
const requestsEach = Number(process.env['POSTERN_FUZZ_REQUESTS'] ?? '8')

let stack: TestStack
let issuer: RunningIssuer
let witness: Witness
let fuzzer: Fuzzer
/** Creates the same judge for another gateway. */
let fuzzerOf: (gateway: string) => Fuzzer
/** A text that only another tenant's resources contain. */
const canary = 'Canary of another tenant'

beforeAll(async () => {
  process.stdout.write(`contract fuzzing: again with POSTERN_FUZZ_SEED=${seed}\n`)
  issuer = await startIssuer()
  stack = await startTestStack({
    env: {
      POSTERN_OIDC_ISSUER: issuer.url,
      POSTERN_FAILED_ATTEMPTS: '1000000',
      POSTERN_PUBLIC_REQUESTS: '1000000',
      // A port without a server: e-mails fail.
      POSTERN_SMTP_URL: 'smtp://127.0.0.1:9',
      POSTERN_SMTP_FROM: 'postern@x.example',
    },
  })
  const gateway = stack.gateways[0] ?? ''
  const [own, other, keyed] = [await stack.createTenant(), await stack.createTenant(), await stack.createTenant()]
  await liftLimits()
  const pool = createPool()
  const { key } = await stack.createKey(own, { scopes: ['*'] })
  const foreign = await stack.createKey(other, { scopes: ['*'] })
  await populate({ gateway, key, text: 'Something', onAnswer: (path, answer) => harvest(pool, path, answer) })
  const others = createPool()
  await populate({ gateway, key: foreign.key, text: canary, onAnswer: (path, answer) => harvest(others, path, answer) })
  for (const { kind, collection, value } of others.all()) {
    if (kind === 'id') pool.add('foreign', collection, value)
    else if (kind === 'cursor') pool.add('cursor', collection, value)
  }
  const credentials: Record<Caller, string | undefined> = {
    fit: `ApiKey ${key}`,
    reader: `ApiKey ${(await stack.createKey(own, { scopes: ['read:*'] })).key}`,
    writer: `ApiKey ${(await stack.createKey(own, { scopes: ['write:*'] })).key}`,
    nobody: undefined,
    garbage: 'ApiKey postern_garbage',
  }
  // Keys are managed in a separate tenant, so that a revoke does not stop the fuzzer.
  const person = `Bearer ${await issuer.issue({ tenantId: keyed.id, roles: ['admin'], expiresInSeconds: 7200 })}`
  await stack.createKey(keyed, { scopes: ['read:findings'] })
  // People use evidence of their own tenant.
  const sender = await stack.createKey(keyed, { scopes: ['write:evidence'] })
  for (const body of ['one', 'two', 'three']) {
    const file = { key: sender.key, method: 'POST', body, headers: { 'content-type': 'text/plain' } } as const
    harvest(pool, '/api/v1/evidence', await send(gateway, '/api/v1/evidence?file_name=own.txt', file))
  }
  const listed = await send(gateway, '/api/v1/api-keys', { headers: { authorization: person } })
  harvest(pool, '/api/v1/api-keys', listed)
  const [endpoint] = starters['sync.create-webhook'] ?? []
  const asPerson = { headers: { authorization: person } }
  for (let count = 0; count < 3; count += 1) {
    await send(gateway, '/api/v1/webhooks', { ...asPerson, method: 'POST', body: endpoint })
  }
  harvest(pool, '/api/v1/webhooks', await send(gateway, '/api/v1/webhooks', asPerson))
  witness = await openWitness(stack.database.url('superuser'))
  const authorizationOf = (caller: Caller, route: Route): string | undefined =>
    caller === 'fit' && route.access.kind === 'person' ? person : credentials[caller]
  fuzzerOf = (origin) => createFuzzer({ gateway: origin, pool, witness, canary, authorizationOf })
  fuzzer = fuzzerOf(gateway)
})

afterAll(async () => {
  await witness.close()
  await stack.stop()
  await issuer.stop()
})

/** The platform sets the limits of requests and keys. */
async function liftLimits(): Promise<void> {
  const client = new Client({ connectionString: stack.database.url('superuser') })
  await client.connect()
  await client.query('update keys.tenant set key_limit = 1000000, tenant_limit = 1000000')
  await client.end()
}

async function fuzz(route: Route, ofSeed: number): Promise<void> {
  try {
    await fc.assert(
      fc.asyncProperty(requestsFor(route), async (draft) => {
        await fuzzer.run(route, draft)
      }),
      { seed: ofSeed, numRuns: requestsEach, interruptAfterTimeLimit: 60_000 },
    )
  } catch (error) {
    // Ids depend on earlier requests, so the whole round must be repeated.
    throw new Error(`found by POSTERN_FUZZ_SEED=${ofSeed}, after the operations before ${route.id}`, { cause: error })
  }
}

/** Destructive operations run last. */
const routes = routeTable.toSorted((a, b) => Number(takesAway(a)) - Number(takesAway(b)))

function takesAway({ id, method }: Route): boolean {
  return method === 'DELETE' || id === 'keys.revoke' || id === 'keys.change-policy'
}

describe('every response follows its contract and reveals no internals:', () => {
  test.each(routes.map((route) => [route.id, route] as const))('%s', { timeout: 120_000 }, async (_id, route) => {
    await expect(fuzz(route, seed)).resolves.toBeUndefined()
  })

  test('an ambiguous body is rejected by every operation that accepts JSON', async () => {
    const takingJson = routes.filter(({ body }) => body !== undefined)
    expect(takingJson.length).toBeGreaterThan(10)
    for (const route of takingJson) {
      const params = Array.from(route.path.matchAll(/:/g), () => encodeURIComponent(marker('id', 'any', 0)))
      for (const [spoiled, spoil] of Object.entries(spoilers)) {
        const [contentType = 'application/json'] = route.bodyMediaTypes ?? []
        const body = { contentType, content: spoil('{"a":[1]}'), spoiled }
        const status = await fuzzer.run(route, { caller: 'fit', params, query: [], headers: {}, body })
        expect([400, 422], `${route.id} with ${spoiled}`).toContain(status)
      }
    }
  }, 60_000)

  test.runIf(minutes > 0)('all operations in turn, for the requested time', { timeout: 0 }, async () => {
    const until = Date.now() + minutes * 60_000
    const faults: string[] = []
    let rounds = 0
    while (Date.now() < until) {
      rounds += 1
      for (const route of routes) {
        await fuzz(route, seed + rounds).catch((error: unknown) => {
          const found = error instanceof Error ? `${error.message}: ${String(error.cause)}` : String(error)
          process.stdout.write(`contract fuzzing: ${found}\n`)
          faults.push(found.slice(0, 2000))
        })
      }
    }
    const fuzzed = { minutes, seed, rounds, ...sumUp(fuzzer.tally), faults }
    process.stdout.write(
      `contract fuzzing: ${fuzzed.requests} requests of ${fuzzed.operations} operations, ${fuzzed.carriedOut} of them carried out, ` +
        `in ${rounds} rounds, seeds ${seed} to ${seed + rounds}; ${faults.length} faults\n`,
    )
    await keepFuzzed(fuzzed)
    expect(rounds).toBeGreaterThan(0)
    expect(faults).toEqual([])
  })

  test('nearly every operation also succeeds', async () => {
    const tried = routes.filter((route) => fuzzer.tally.has(route.id) && !isUnsupported(route))
    const notCarriedOut = (): Route[] =>
      tried.filter(({ id }) => ![...(fuzzer.tally.get(id)?.keys() ?? [])].some((status) => status < 400))
    const mostThatMayRemain = Math.floor(tried.length * 0.15)
    // Operations that random requests missed get a few more. Only an unreachable operation is a fault.
    for (let more = 1; more <= 6 && notCarriedOut().length > mostThatMayRemain; more += 1) {
      for (const route of notCarriedOut()) await fuzz(route, seed + more)
    }
    expect(tried.length).toBeGreaterThan(10)
    const never = notCarriedOut().map(({ id }) => id)
    expect(never.length, never.join(', ')).toBeLessThanOrEqual(mostThatMayRemain)
  }, 120_000)
})

const gatewayUrl = (): string => stack.gateways[0] ?? ''

describe('the same judge', () => {
  const create = routes.find(({ id }) => id === 'findings.create')
  const title = 'By right'
  const content = JSON.stringify({ title, condition: 'Seen.', severity: 'low' })
  const right: Draft = {
    caller: 'fit',
    params: [],
    query: [],
    headers: {},
    body: { contentType: 'application/json', content, spoiled: undefined },
  }
  const spoiled: Draft = {
    ...right,
    body: { contentType: 'application/json', content: '{"title":"a","title":"b"}', spoiled: 'a key that comes twice' },
  }
  const run = async (standIn: Awaited<ReturnType<typeof startStandIn>>, drafts: readonly Draft[]) => {
    if (create === undefined) throw new Error('findings cannot be made')
    const judge = fuzzerOf(standIn.url)
    await witness.accept()
    try {
      const statuses: number[] = []
      for (const draft of drafts) statuses.push(await judge.run(create, draft))
      return statuses
    } finally {
      await standIn.close()
    }
  }
  const sees: Readonly<Record<Wrong, RegExp>> = {
    'returns its own error': /caused a server error/,
    'shows data of another tenant': /contains text of another tenant/,
    'reveals internals': /reveals internals/,
    'names its server': /The response has server/,
    'adds an undocumented member': /does not match the OpenAPI document/,
    'omits a documented member': /does not match the OpenAPI document/,
    'has no request id': /no X-Request-Id/,
    'rejects a request after executing it': /The request was rejected but changed findings\.\w+/,
  }

  test.each(Object.keys(wrongs) as Wrong[])('finds a gateway that %s', async (wrong) => {
    await expect(run(await startStandIn(gatewayUrl(), canary, wrong), [right])).rejects.toThrow(sees[wrong])
  })

  test('detects a gateway that accepts invalid requests, and one without pointers in its errors', async () => {
    await expect(run(await startAcceptingProxy(gatewayUrl()), [right, spoiled])).rejects.toThrow(
      /The request should be rejected: a body/,
    )
    await expect(run(await startProxyWithoutPointers(gatewayUrl()), [right, spoiled])).rejects.toThrow(
      /without the positions/,
    )
  })

  test('reports no faults for a correct gateway', async () => {
    expect(await run(await startStandIn(gatewayUrl(), canary, undefined), [right, spoiled])).toEqual([201, 400])
  })
})
