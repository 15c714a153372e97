import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { routeTable } from '@postern/contracts'
import { parseKeyRing } from '@postern/signed-context'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { baseConfig, baseEnvironment, parseEnvironment } from './config.ts'
import type { BaseConfig } from './config.ts'
import { contractRoute } from './contract-route.ts'
import {
  type BaseDeps,
  type RunningService,
  type ServiceDefinition,
  listenRemedy,
  startService,
} from './run-service.ts'

const summary = routeTable.find(({ id }) => id === 'findings.summarize')
if (summary === undefined) throw new Error('there is no such route')
const route = summary

/** What the running request waits for. */
let held = Promise.withResolvers<void>()
let arrived = Promise.withResolvers<void>()
let isReady = true

const definition: ServiceDefinition<BaseConfig, BaseDeps> = {
  name: 'findings',
  readConfig: (env) => {
    const ring = parseKeyRing(`k1:${Buffer.alloc(32, 1).toString('base64url')}`)
    return baseConfig(parseEnvironment(env, baseEnvironment), { findings: ring })
  },
  openDeps: async () => ({
    ready: async () => {
      if (!isReady) throw new Error('the database is away')
    },
    close: async () => undefined,
  }),
  buildApp: (app) => {
    contractRoute(app, route, async () => undefined)
    app.get('/held', { config: { guard: 'open' } }, async () => {
      arrived.resolve()
      await held.promise
      return 'whole'
    })
    app.post('/taken', { config: { guard: 'open' } }, async () => 'taken')
  },
}

async function start(env: Readonly<Record<string, string>>): Promise<RunningService> {
  held = Promise.withResolvers<void>()
  arrived = Promise.withResolvers<void>()
  isReady = true
  return await startService(definition, env, { writeLog: () => undefined })
}

async function ask(url: string): Promise<{ status: number; text: string; headers: Headers }> {
  const answer = await fetch(url)
  return { status: answer.status, text: await answer.text(), headers: answer.headers }
}

test('a misspelled setting is logged by its name only', async () => {
  const lines: string[] = []
  const env = {
    POSTERN_DRAIN_MS: '0',
    POSTERN_DRIAN_MS: 'hunter2',
    POSTERN_HOST_FILE: '',
    POSTERN_OTLP_FILE: '/x',
    PATH: '',
  }
  const service = await startService(definition, env, { writeLog: (line) => lines.push(line) })
  await service.close()
  const told = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'settings_unknown')
  expect(told).toMatchObject([{ level: 'warn', names: ['POSTERN_DRIAN_MS', 'POSTERN_OTLP_FILE'] }])
  expect(lines.join('')).not.toContain('hunter2')
})

/** Why a service could not be started. */
async function failureOf(env: Readonly<Record<string, string>>): Promise<unknown> {
  return await start(env).then(
    async (service) => await service.close(),
    (error: unknown) => error,
  )
}

describe('a service that cannot listen says what to fix:', () => {
  test('a port that is in use, by its number', async () => {
    const first = await start({ POSTERN_PORT: '0' })
    const error = await failureOf({ POSTERN_PORT: String(first.port) })
    expect(listenRemedy(error)).toMatch(
      new RegExp(`^port ${first.port} is in use: stop the process that listens there, or set POSTERN_PORT `),
    )
    await first.close()
  })

  test('an address that is not of this machine, by its setting', async () => {
    expect(listenRemedy(await failureOf({ POSTERN_PORT: '0', POSTERN_HOST: '192.0.2.1' }))).toContain('POSTERN_HOST')
  })

  test('and hides the details of other failures', () => {
    const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', syscall: 'connect', port: 5432 })
    for (const error of [refused, new Error('x'), undefined]) expect(listenRemedy(error)).toBeUndefined()
  })
})

describe('a service that receives SIGTERM', () => {
  test('reports that it is not ready, asks clients to close their connections, and answers open requests', async () => {
    const service = await start({ POSTERN_DRAIN_MS: '4000' })
    const ready = `${service.url}/internal/health/ready`
    const underWay = ask(`${service.url}/held`)
    await arrived.promise
    const before = await ask(ready)
    expect([before.status, before.headers.get('connection')]).toEqual([200, 'keep-alive'])

    const closed = service.close()
    const draining = await ask(ready)
    expect([draining.status, JSON.parse(draining.text)]).toEqual([503, { status: 'draining' }])
    expect(draining.headers.get('connection')).toBe('close')
    // Not yet closed to who has not seen it.
    expect((await ask(`${service.url}/internal/health/live`)).status).toBe(200)
    // The server takes nothing new any more; what it has begun is still under way.
    await expect
      .poll(
        async () =>
          await ask(ready).then(
            () => 'answered',
            () => 'refused',
          ),
        { timeout: 30_000 },
      )
      .toBe('refused')
    held.resolve()
    const { status, text } = await underWay
    expect([status, text]).toEqual([200, 'whole'])
    await closed
  })
})

test('an overloaded service rejects requests with 503, and still reports its health', async () => {
  const service = await start({ POSTERN_MAX_EVENT_LOOP_DELAY_MS: '300' })
  const path = `${service.url}${route.path}`
  // On a busy machine the service may be overloaded for a moment.
  await expect.poll(async () => (await ask(path)).status, { timeout: 30_000 }).toBe(401)
  const cell = new Int32Array(new SharedArrayBuffer(4))
  let [refused, ready] = [await ask(path), await ask(`${service.url}/internal/health/ready`)]
  for (let round = 0; round < 50 && refused.status !== 503; round += 1) {
    // As a long computation would, without one: what is looked at each 250 ms is late by more than 300.
    Atomics.wait(cell, 0, 0, 700)
    await nextTurn()
    ;[refused, ready] = await Promise.all([ask(path), ask(`${service.url}/internal/health/ready`)])
  }
  expect([refused.status, JSON.parse(refused.text)]).toEqual([503, expect.objectContaining({ code: 'overloaded' })])
  expect(refused.headers.get('retry-after')).toBe('1')
  expect(ready.status).toBe(200)
  expect((await ask(`${service.url}/internal/metrics`)).text).toMatch(
    /^postern_overload_refusals_total\{[^}]*\} [1-9]/m,
  )
  await expect.poll(async () => (await ask(path)).status, { timeout: 30_000 }).toBe(401)
  await service.close()
})

describe('a service', () => {
  let service: RunningService

  beforeAll(async () => {
    service = await start({ POSTERN_MAX_CONNECTIONS: '10', POSTERN_BODY_TIMEOUT_MS: '100' })
  })

  afterAll(async () => {
    await service.close()
  })

  test('is not ready while a request would fail, and does not count readiness requests', async () => {
    isReady = false
    const away = await ask(`${service.url}/internal/health/ready`)
    expect([away.status, JSON.parse(away.text)]).toEqual([503, { status: 'unavailable', reason: 'Error' }])
    isReady = true
    expect((await ask(`${service.url}/internal/health/ready`)).status).toBe(200)
    await ask(`${service.url}${route.path}`)
    const { text } = await ask(`${service.url}/internal/metrics`)
    expect(text).not.toContain('route="/internal')
    expect(text).toContain(`postern_http_requests_total{route="${route.path}",method="GET",status="401"`)
    expect(text).toMatch(/^postern_signature_refusals_total\{service="findings"\} [1-9]/m)
  })

  test('cuts a body that stalls', async () => {
    const { port } = service
    const slow = connect(port, '127.0.0.1')
    slow.on('error', () => undefined)
    slow.write('POST /taken HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"')
    slow.resume()
    await once(slow, 'close')
    const whole = await fetch(`${service.url}/taken`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    expect([whole.status, await whole.text()]).toEqual([200, 'taken'])
  })

  test('accepts no more connections than configured', async () => {
    const sockets = Array.from({ length: 40 }, () => connect(service.port, '127.0.0.1').on('error', () => undefined))
    const closed = sockets.map(async (socket) => await once(socket.resume(), 'close'))
    await Promise.race(closed)
    for (const socket of sockets) socket.destroy()
    await Promise.all(closed)
    await expect
      .poll(
        async () =>
          await ask(`${service.url}/internal/health/live`).then(
            ({ status }) => status,
            () => 0,
          ),
        { timeout: 30_000 },
      )
      .toBe(200)
  })
})
