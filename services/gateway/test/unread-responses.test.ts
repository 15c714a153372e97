import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type Socket, connect } from 'node:net'
import { createInterface } from 'node:readline'
import { generateKey } from '@postern/api-key'
import { routeTable } from '@postern/contracts'
import { compileCache, nodeFlagsOf, programOf } from '@postern/local-stack/testing'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { guideNames } from '../src/guides/names.ts'
import { keyRecord } from './builders.ts'
import { type GatewayWorld, startGatewayWorld } from './gateway.ts'

const mebibyte = 1024 * 1024
/** The most memory that clients may cost. */
const allowance = 64 * mebibyte
/** Generous: thousands of requests on a busy machine. */
const timeLimitMs = 400_000
/** Requests of another tenant during the attack, with a measurement after each. */
const looks = 300
/** Measurements before the attack. Fewer see less memory, and make the limit stricter. */
const looksBefore = 30
/** What Node gives its heap in the gateway's container of 768 MiB. */
const heapLimits = ['--max-old-space-size=384', '--max-semi-space-size=16']
const { value, hash } = generateKey()
const other = generateKey()
const auth = `Authorization: ApiKey ${value}\r\n`

const documents = [
  ...routeTable.filter(({ upstream, path }) => upstream === 'gateway' && !path.includes(':')).map(({ path }) => path),
  ...[...guideNames].map((name) => `/docs/guides/${name}`),
]

let world: GatewayWorld
let gateway: ChildProcess
let port = 0
let isAttacked = false
const sockets = new Set<Socket>()

beforeAll(async () => {
  world = await startGatewayWorld()
  const tenants = [
    [hash, '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be001'],
    [other.hash, '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be002'],
  ] as const
  for (const [known, tenantId] of tenants) {
    const record = keyRecord({ hash: known, tenantId, scopes: ['*'], keyLimit: 10_000_000, tenantLimit: 10_000_000 })
    world.keys.records.set(known, { ...record, expiresAt: Date.now() + 86_400_000 })
  }
})

/** Starts a gateway process, and gives it what is no attack: code is compiled and pools are filled by the first requests. */
async function startGatewayProcess(): Promise<void> {
  gateway = spawn(process.execPath, [...nodeFlagsOf('gateway'), ...heapLimits, programOf('gateway')], {
    env: { PATH: '/usr/bin:/bin', NODE_COMPILE_CACHE: compileCache, ...world.env, POSTERN_REQUEST_LOG: 'off' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (gateway.stdout === null) throw new Error('the gateway has no output')
  for await (const line of createInterface({ input: gateway.stdout })) {
    const entry: { event?: string; port?: number } = JSON.parse(line)
    if (entry.event !== 'listening') continue
    port = entry.port ?? 0
    break
  }
  gateway.stdout.resume()
  while ((await status()) !== 200);
  await warmUp()
}

afterEach(async () => {
  isAttacked = false
  for (const socket of sockets) socket.destroy()
  const exited = once(gateway, 'exit')
  gateway.kill('SIGKILL')
  await exited
})
afterAll(async () => await world.close())

async function status(): Promise<number> {
  return (await askAsOther()).status
}

/** The other tenant's request. */
async function askAsOther(): Promise<{ readonly status: number; readonly text: string | undefined }> {
  const headers = { authorization: `ApiKey ${other.value}` }
  const answer = await fetch(`http://127.0.0.1:${port}/api/v1/findings`, { headers }).catch(() => undefined)
  const text = await answer?.text()
  // This process also plays the keys service, and on a busy machine its answers may come too late for the gateway.
  if (text?.includes('could not be confirmed') === true) return await askAsOther()
  return { status: answer?.status ?? 0, text }
}

async function warmUp(): Promise<void> {
  for (let round = 0; round < 6; round += 1) {
    await Promise.all(Array.from({ length: 50 }, async () => await status()))
  }
  await (await fetch(`http://127.0.0.1:${port}/api/v1/nothing`)).arrayBuffer()
}

/** Of the process itself: pages of its program file, which the kernel loads and drops as it likes, are not among them. */
function residentBytes(): number {
  const [, kibibytes] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) * 1024
}

/** The most memory that is seen during `count` requests of another tenant. */
async function mostWhileServing(count: number): Promise<number> {
  let most = 0
  for (let look = 0; look < count; look += 1) {
    const answer = await askAsOther()
    expect(answer.status, answer.text).toBe(200)
    most = Math.max(most, residentBytes())
  }
  return most
}

function open(bytes: string): Socket {
  const socket = connect(port, '127.0.0.1')
  sockets.add(socket)
  socket.on('error', () => undefined)
  socket.once('close', () => sockets.delete(socket))
  socket.pause()
  socket.write(bytes, 'latin1')
  return socket
}

/** A client that connects again whenever its connection ends. */
function openAgain(bytesOf: () => string, use: (socket: Socket) => void): void {
  if (!isAttacked) return
  const socket = open(bytesOf())
  socket.once('close', () => openAgain(bytesOf, use))
  use(socket)
}

/** Reads a little of an answer for 200 ms. */
function readSlowly(socket: Socket): void {
  let readsLeft = 10
  const timer = setInterval(() => {
    readsLeft -= 1
    if (readsLeft === 0) socket.destroy()
    else socket.read(16_384)
  }, 20)
  socket.once('close', () => clearInterval(timer))
}

function leaveWithAnswer(socket: Socket): void {
  socket.resume()
  socket.once('data', () => socket.destroy())
}

const get = (path: string, headers = auth): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`
const long = `X-Long: ${'x'.repeat(12_000)}\r\n`
const post = (length: number, headers = auth): string =>
  `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\n${headers}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`
const chunked = `POST /api/v1/findings HTTP/1.1\r\nHost: a\r\n${auth}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`
/** A header with a well-formed key that nobody has. */
const unknownAuth = (): string => `Authorization: ApiKey ${generateKey().value}\r\n`

const attacks = {
  '10 connections with 10,000 requests each': () => {
    for (let at = 0; at < 10; at += 1) open(get('/api/v1/findings').repeat(10_000))
  },
  '10 connections with 10,000 requests each that are refused': () => {
    for (let at = 0; at < 10; at += 1) open(get('/api/v1/findings', at % 2 === 0 ? '' : auth + auth).repeat(10_000))
  },
  '10 connections with 10,000 requests each for what there is not': () => {
    for (let at = 0; at < 10; at += 1) open(get('/api/v1/nothing').repeat(10_000))
  },
  '300 connections with 30 requests each for the OpenAPI document': () => {
    for (let at = 0; at < 300; at += 1) open(get('/api/v1/openapi.json', '').repeat(30))
  },
  '30 connections for each document, which nobody has asked for before': () => {
    for (const path of documents) {
      for (let at = 0; at < 30; at += 1) open(get(path, at % 2 === 0 ? '' : 'Accept-Encoding: br\r\n'))
    }
  },
  '400 connections that ask for large answers': () => {
    for (let at = 0; at < 400; at += 1) open(get('/api/v1/findings?large').repeat(3))
  },
  '1,000 connections with half a body each': () => {
    for (let at = 0; at < 1000; at += 1) open(post(900_000) + 'x'.repeat(450_000))
  },
  '1,000 connections with half a body each and keys that are unknown': () => {
    for (let at = 0; at < 1000; at += 1) open(post(900_000, unknownAuth()) + 'x'.repeat(450_000))
  },
  '1,000 connections with the start of a body in chunks each': () => {
    for (let at = 0; at < 1000; at += 1) open(chunked + `${(60_000).toString(16)}\r\n${'x'.repeat(59_000)}`)
  },
  '1,000 connections with large headers and a body in chunks that does not begin': () => {
    for (let at = 0; at < 1000; at += 1) open(chunked.replace('Host: a', `Host: a\r\n${long.trimEnd()}`))
  },
  '1,000 connections with large headers each': () => {
    for (let at = 0; at < 1000; at += 1) open(get('/api/v1/findings?unanswered', auth + long))
  },
  '100 connections with 64 requests with large headers each': () => {
    for (let at = 0; at < 100; at += 1) open(get('/api/v1/findings?unanswered', auth + long).repeat(64))
  },
  '1,000 connections with most of a head each': () => {
    for (let at = 0; at < 1000; at += 1) open(`GET / HTTP/1.1\r\nX-Long: ${'x'.repeat(12_000)}`)
  },
} as const

const repeatedAttacks = {
  '200 clients that read slowly': () => {
    for (let at = 0; at < 200; at += 1) openAgain(() => get('/api/v1/findings?large'), readSlowly)
  },
  '200 clients with keys that are unknown': () => {
    for (let at = 0; at < 200; at += 1) openAgain(() => get('/api/v1/findings', unknownAuth()), leaveWithAnswer)
  },
  '200 clients with large headers and keys that are unknown': () => {
    for (let at = 0; at < 200; at += 1) openAgain(() => get('/api/v1/findings', unknownAuth() + long), leaveWithAnswer)
  },
} as const

describe.skipIf(process.platform !== 'linux')(
  'a gateway grows by 64 MiB at most, and serves others, whatever is sent by',
  () => {
    test.each(Object.entries(attacks))(
      '%s and never read',
      async (_what, attack) => await expectBound(attack),
      timeLimitMs,
    )

    test.each(Object.entries(repeatedAttacks))(
      '%s and connect again at once',
      async (_what, attack) => await expectBound(attack),
      timeLimitMs,
    )
  },
)

async function expectBound(attack: () => void): Promise<void> {
  await startGatewayProcess()
  // Both measurements contain the garbage of these requests.
  const quiet = await mostWhileServing(looksBefore)
  isAttacked = true
  attack()
  const most = await mostWhileServing(looks)
  isAttacked = false
  for (const socket of sockets) socket.destroy()
  expect(most - quiet).toBeLessThan(allowance)
}
