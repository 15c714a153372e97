// A load generator. Standard input: a job as JSON; with `inTurns` each further line is a duration in milliseconds.
import { randomInt } from 'node:crypto'
import { type Socket, createConnection } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { keyOf } from './key-set.ts'
import { percentile } from './stats.ts'

const input = createInterface({ input: process.stdin })
const lines = input[Symbol.asyncIterator]()
const { value: given } = await lines.next()

const job = z
  .object({
    url: z.url(),
    connections: z.int().min(1),
    seconds: z.number(),
    rate: z.number().optional(),
    keys: z.object({ prefix: z.string(), count: z.int(), first: z.string() }).optional(),
    inOrder: z.boolean().optional(),
    together: z.int().min(1).default(1),
    tail: z.object({ oneIn: z.int().min(1), count: z.int().min(1), from: z.int() }).optional(),
    requests: z.int().optional(),
    mayFail: z.number().optional(),
    settleSeconds: z.number().optional(),
    inTurns: z.boolean().default(false),
  })
  .parse(JSON.parse(String(given)))

const { hostname, port, host, pathname, search } = new URL(job.url)
const head = `GET ${pathname}${search} HTTP/1.1\r\nHost: ${host}\r\n`
/** Prime and no divisor of any number of keys, so that the steps reach every key once. */
const stride = job.inOrder === true ? 1 : 610_639
const offset = job.inOrder === true ? 0 : randomInt(1_000_000)
const most = job.requests ?? Infinity
const latencies: number[] = []
const perSecond: number[] = []
const waiting: number[] = []
const idle: Connection[] = []
let sent = 0
let failures = 0
let ended = false
let isPaused = false
let onAllIdle = (): void => undefined

function nextRequest(): string {
  if (job.keys === undefined) return `${head}\r\n`
  return `${head}Authorization: ApiKey ${keyOf(job.keys.prefix, nextNumber(job.keys.count))}\r\n\r\n`
}

function nextNumber(count: number): number {
  const { tail } = job
  if (tail !== undefined && sent % tail.oneIn === 0)
    return count + (((tail.from + sent / tail.oneIn) * stride) % tail.count)
  return (offset + Math.floor(sent / job.together) * stride) % count
}

/** Parses only the head of each response, and counts the bytes of its body. */
class Connection {
  readonly #socket: Socket
  #startedAt = 0
  #missing = 0
  #head = ''

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', () => this.#fail())
    socket.on('close', () => this.#fail())
  }

  send(dueAt: number): void {
    this.#startedAt = dueAt
    const request = nextRequest()
    sent += 1
    this.#socket.write(request, 'latin1')
  }

  end(): void {
    this.#socket.destroy()
  }

  #read(chunk: Buffer): void {
    if (this.#missing > 0) {
      this.#missing -= chunk.length
    } else {
      this.#head += chunk.toString('latin1')
      const end = this.#head.indexOf('\r\n\r\n')
      if (end === -1) return
      const length = /\r\ncontent-length: *(\d+)/i.exec(this.#head)?.[1]
      if (length === undefined || !this.#head.startsWith('HTTP/1.1 200')) failures += 1
      this.#missing = Number(length ?? 0) - (this.#head.length - end - 4)
      this.#head = ''
    }
    if (this.#missing <= 0) this.#done()
  }

  #done(): void {
    this.#missing = 0
    const now = performance.now()
    if (ended) return
    latencies.push(now - this.#startedAt)
    const second = Math.floor((now - startedAt) / 1000)
    perSecond[second] = (perSecond[second] ?? 0) + 1
    const dueAt = waiting.shift()
    if (dueAt !== undefined) this.send(dueAt)
    else if (job.rate !== undefined || isPaused) setIdle(this)
    else if (sent < most) this.send(now)
    else if (latencies.length >= most) finish()
  }

  #fail(): void {
    if (ended) return
    failures += 1
    finish()
  }
}

async function open(): Promise<Connection> {
  const socket = createConnection({ host: hostname, port: Number(port) })
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.once('connect', () => resolve())
  socket.once('error', reject)
  await promise
  return new Connection(socket)
}

const connections: Connection[] = []

async function openAll(): Promise<void> {
  connections.push(...(await Promise.all(Array.from({ length: job.connections }, open))))
}

let startedAt = 0
let timer: NodeJS.Timeout | undefined

function endInTime(): void {
  startedAt = performance.now()
  timer = setTimeout(job.settleSeconds === undefined ? finish : begin, (job.settleSeconds ?? job.seconds) * 1000)
}

function begin(): void {
  if (ended) return
  process.stdout.write('begun\n')
  resetCounts()
  timer = setTimeout(finish, job.seconds * 1000)
}

function finish(): void {
  if (ended) return
  ended = true
  clearTimeout(timer)
  for (const connection of connections) connection.end()
  printResult()
  input.close()
  onAllIdle()
}

function printResult(): void {
  const result = {
    requests: latencies.length,
    sent,
    seconds: (performance.now() - startedAt) / 1000,
    failures,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    perSecond: Array.from(perSecond, (count) => count ?? 0),
  }
  process.stdout.write(`${JSON.stringify(result)}\n`)
}

function resetCounts(): void {
  latencies.length = 0
  perSecond.length = 0
  startedAt = performance.now()
}

function setIdle(connection: Connection): void {
  idle.push(connection)
  if (isPaused && idle.length === connections.length) onAllIdle()
}

async function takeTurns(): Promise<void> {
  for await (const line of lines) {
    // A gateway ends connections that are idle for ten seconds.
    if (connections.length === 0) {
      await openAll()
      idle.push(...connections)
    }
    resetCounts()
    isPaused = false
    for (const connection of idle.splice(0)) connection.send(performance.now())
    await delay(Number(line))
    const allIdle = Promise.withResolvers<void>()
    onAllIdle = allIdle.resolve
    isPaused = true
    await allIdle.promise
    if (ended) return
    printResult()
  }
  ended = true
  for (const connection of connections) connection.end()
}

/** A request without a free connection counts from now. */
function pace(rate: number): void {
  if (ended) return
  const now = performance.now()
  const due = Math.floor(((now - startedAt) / 1000) * rate)
  while (sent + waiting.length < due) {
    const connection = idle.pop()
    if (connection === undefined) waiting.push(now)
    else connection.send(now)
  }
  setTimeout(pace, 1, rate)
}

if (job.inTurns) {
  await takeTurns()
} else if (job.rate === undefined) {
  await openAll()
  endInTime()
  for (const connection of connections) connection.send(performance.now())
} else {
  await openAll()
  endInTime()
  idle.push(...connections)
  pace(job.rate)
}
