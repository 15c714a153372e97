import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, HookHandlerDoneFunction } from 'fastify'
import { Counter, type Registry } from '@prometheus-io/client'
import { type ProblemOptions, problem } from './problem.ts'
import { heldBytes } from './read-ahead-budget.ts'

/** Requests that may wait on one connection behind the one that is being answered. */
const maxWaiting = 64
/** Bytes of requests that wait, or are ignored behind a refusal, on all connections together. */
const maxHeldBytes = 8 * 1024 * 1024
/** Requests behind a refusal that one connection may bring before it is cut. */
const maxIgnored = 1024

/** What the caller is told whose connection brings too many requests at once. */
export const tooManyPipelined: ProblemOptions = {
  detail: `A connection may have ${maxWaiting} requests waiting. Read the answers before you send more.`,
  retryAfterSeconds: 1,
}

interface Waiting<Extra> {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly extra: Extra
  readonly isRefused: boolean
}

interface Connection<Extra> {
  isBusy: boolean
  isRefused: boolean
  ignored: number
  /** Of the requests that wait or are ignored. */
  heldBytes: number
  readonly waiting: Waiting<Extra>[]
  readonly onAnswered: () => void
}

export interface PipeliningOptions<Extra> {
  /** Begins a request whose turn it is. */
  readonly begin: (request: IncomingMessage, response: ServerResponse, extra: Extra) => void
  /** Answers a request that is one too many with `tooManyPipelined`, and says that the connection ends. */
  readonly refuse: (request: IncomingMessage, response: ServerResponse, extra: Extra) => void
  readonly metrics: Registry
}

/**
 * Returns a function that takes each request of a server and begins it once the answers before it on its connection have been sent.
 * Node reads requests ahead of their answers (RFC 9112 §9.3.2) and would keep every answer until the client reads it. Of a connection
 * that brings too many, one more is refused and the rest ignored. HOT PATH: nothing is allocated for a request that comes alone.
 */
export function createPipelining<Extra>({
  begin,
  refuse,
  metrics,
}: PipeliningOptions<Extra>): (request: IncomingMessage, response: ServerResponse, extra: Extra) => void {
  const counter = refusals(metrics)
  const connections = new WeakMap<Socket, Connection<Extra>>()
  let heldInAll = 0

  function addHeld(connection: Connection<Extra>, bytes: number): void {
    connection.heldBytes += bytes
    heldInAll += bytes
  }

  function open(socket: Socket): Connection<Extra> {
    const connection: Connection<Extra> = {
      isBusy: false,
      isRefused: false,
      ignored: 0,
      heldBytes: 0,
      waiting: [],
      onAnswered: () => {
        connection.isBusy = false
        const next = connection.waiting.shift()
        if (next === undefined) return
        addHeld(connection, -heldBytes(next.request))
        // An answer may have ended the connection: nothing behind it is carried out.
        if (!socket.destroyed && !socket.writableEnded) start(connection, next)
      },
    }
    connections.set(socket, connection)
    socket.once('close', () => {
      addHeld(connection, -connection.heldBytes)
      connection.waiting.length = 0
      connection.ignored = 0
    })
    return connection
  }

  function start(connection: Connection<Extra>, { request, response, extra, isRefused }: Waiting<Extra>): void {
    connection.isBusy = true
    response.on('close', connection.onAnswered)
    if (isRefused) refuse(request, response, extra)
    else begin(request, response, extra)
  }

  function wait(connection: Connection<Extra>, next: Omit<Waiting<Extra>, 'isRefused'>): void {
    const bytes = heldBytes(next.request)
    const isFull = heldInAll + bytes > maxHeldBytes
    addHeld(connection, bytes)
    if (connection.isRefused) {
      connection.ignored += 1
      // Node keeps what is ignored for as long as the connection lives.
      if (connection.ignored > maxIgnored || isFull) next.request.socket.destroy()
      return
    }
    const isRefused = connection.waiting.length >= maxWaiting || isFull
    connection.isRefused = isRefused
    connection.waiting.push({ ...next, isRefused })
    if (isRefused) counter.inc()
  }

  return (request, response, extra) => {
    const { socket } = request
    const connection = connections.get(socket) ?? open(socket)
    if (connection.isBusy || connection.isRefused) {
      wait(connection, { request, response, extra })
      return
    }
    connection.isBusy = true
    response.on('close', connection.onAnswered)
    begin(request, response, extra)
  }
}

const counters = new WeakMap<Registry, Counter>()

function refusals(metrics: Registry): Counter {
  const known = counters.get(metrics)
  if (known !== undefined) return known
  const counter = new Counter({
    name: 'postern_pipelined_requests_refused_total',
    help: 'Connections that brought more requests at once than may wait on one',
    registers: [metrics],
  })
  counters.set(metrics, counter)
  return counter
}

/** Bounds the pipelining of all requests to `app`. To be called before any other hook is added. */
export function boundPipelining(app: FastifyInstance, metrics: Registry): void {
  const enter = createPipelining<{ readonly reply: FastifyReply; readonly done: HookHandlerDoneFunction }>({
    begin: (_request, _response, { done }) => done(),
    refuse: (_request, _response, { reply, done }) => {
      reply.header('connection', 'close')
      done(problem('too_many_requests', tooManyPipelined))
    },
    metrics,
  })
  app.addHook('onRequest', (request, reply, done) => enter(request.raw, reply.raw, { reply, done }))
}
