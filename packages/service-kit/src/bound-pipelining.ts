import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, HookHandlerDoneFunction } from 'fastify'
import { Counter, type Registry } from '@prometheus-io/client'
import { type ProblemOptions, problem } from './problem.ts'
import { countHeldBytes } from './read-ahead-budget.ts'

const maxWaiting = 64
/** Waiting and ignored requests of all connections. */
const maxHeldBytes = 8 * 1024 * 1024
/** A connection is cut after so many ignored requests. */
const maxIgnored = 1024

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

interface CurrentResponse {
  current: ServerResponse | undefined
}

interface Connection<Extra> extends CurrentResponse {
  isRefused: boolean
  ignored: number
  heldBytes: number
  readonly waiting: Waiting<Extra>[]
  readonly onAnswered: () => void
}

export interface PipeliningOptions<Extra> {
  readonly begin: (request: IncomingMessage, response: ServerResponse, extra: Extra) => void
  readonly refuse: (request: IncomingMessage, response: ServerResponse, extra: Extra) => void
  readonly metrics: Registry
}

const answering = new WeakMap<Socket, CurrentResponse>()

export function isAnswerUnderWay(socket: Socket): boolean {
  return answering.get(socket)?.current?.headersSent === true
}

/**
 * Begins pipelined requests one after the other (RFC 9112, section 9.3.2). Beyond the limit, one is rejected and the
 * rest are ignored.
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
      current: undefined,
      isRefused: false,
      ignored: 0,
      heldBytes: 0,
      waiting: [],
      onAnswered: () => {
        connection.current = undefined
        const next = connection.waiting.shift()
        if (next === undefined) return
        addHeld(connection, -countHeldBytes(next.request))
        // Requests behind the end of a connection are not executed.
        if (!socket.destroyed && !socket.writableEnded) start(connection, next)
      },
    }
    connections.set(socket, connection)
    answering.set(socket, connection)
    socket.once('close', () => {
      addHeld(connection, -connection.heldBytes)
      connection.waiting.length = 0
      connection.ignored = 0
    })
    return connection
  }

  function start(connection: Connection<Extra>, { request, response, extra, isRefused }: Waiting<Extra>): void {
    connection.current = response
    response.on('close', connection.onAnswered)
    if (isRefused) refuse(request, response, extra)
    else begin(request, response, extra)
  }

  function wait(connection: Connection<Extra>, next: Omit<Waiting<Extra>, 'isRefused'>): void {
    const bytes = countHeldBytes(next.request)
    const isFull = heldInAll + bytes > maxHeldBytes
    addHeld(connection, bytes)
    if (connection.isRefused) {
      connection.ignored += 1
      // Node holds ignored requests until the connection ends.
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
    if (connection.current !== undefined || connection.isRefused) {
      wait(connection, { request, response, extra })
      return
    }
    connection.current = response
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
    help: 'Connections with more pipelined requests than may wait',
    registers: [metrics],
  })
  counters.set(metrics, counter)
  return counter
}

/** Call it before adding other hooks. */
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
