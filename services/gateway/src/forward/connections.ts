import { Client, type Dispatcher } from 'undici'
import { NoConnectionError } from './upstream-errors.ts'

/** The connections to one service. */
export interface Connections {
  /** Sends a request on a free connection at once, or on the next that becomes free. It fails where too many wait already. */
  dispatch(options: Dispatcher.DispatchOptions, turn: Turn): void
  /** Gives back the memory of connections that were not used since the last call. */
  prune(): void
  /** Connections that take up memory, open or not. */
  readonly size: number
  /** Cuts all connections. */
  destroy(): Promise<void>
}

interface Waiting {
  readonly options: Dispatcher.DispatchOptions
  readonly turn: Turn
}

/** Headers of an answer by their lower-case names. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>

/** Of each service. */
export interface ConnectionLimits {
  readonly connections: number
  /** Requests that may wait for a connection. */
  readonly waiting: number
}

/**
 * Opens up to `limits.connections` connections to an origin as they are needed, each with one request at a time.
 *
 * HOT PATH: undici's own pool searches all its connections twice for every request, and has each announce by an event
 * that it is free. Here the one that was used last is on top of a stack. A connection that was closed, by either side,
 * stays in the stack and connects anew.
 */
export function openConnections(origin: string, limits: ConnectionLimits, options: Client.Options): Connections {
  const free: Client[] = []
  const all = new Set<Client>()
  /** The least that were free at once since the last prune: so many at the bottom of the stack were not used. */
  let leastFree = 0
  let waiting: Waiting[] = []

  function release(client: Client): void {
    if (waiting.length === 0) free.push(client)
    // Not from within the client's own report of an end: it is still at work on it.
    else setImmediate(serveNext, client)
  }

  function serveNext(client: Client): void {
    forgetEnded()
    const next = waiting.shift()
    if (next === undefined) free.push(client)
    else start(client, next.options, next.turn)
  }

  /** Those who have given up need no connection any more. */
  function forgetEnded(): void {
    while (waiting[0]?.turn.isOver() === true) waiting.shift()
  }

  function wait(request: Dispatcher.DispatchOptions, turn: Turn): void {
    // The first may be patient while all behind it have left.
    if (waiting.length >= limits.waiting) waiting = waiting.filter((other) => !other.turn.isOver())
    if (waiting.length >= limits.waiting) turn.refuse()
    else waiting.push({ options: request, turn })
  }

  function start(client: Client, request: Dispatcher.DispatchOptions, turn: Turn): void {
    turn.begin(client, release)
    client.dispatch(request, turn)
  }

  function open(): Client | undefined {
    if (all.size === limits.connections) return undefined
    // With 1, a client calls itself busy while its only request runs, and tells everyone when it no longer is. Two never
    // run at once all the same: it gets its next request when the one before has ended.
    const client = new Client(origin, { ...options, pipelining: 2 })
    all.add(client)
    return client
  }

  return {
    dispatch: (request, turn) => {
      const client = free.pop() ?? open()
      if (free.length < leastFree) leastFree = free.length
      if (client === undefined) wait(request, turn)
      else start(client, request, turn)
    },
    prune: () => {
      for (const client of free.splice(0, leastFree)) {
        all.delete(client)
        void client.destroy()
      }
      leastFree = free.length
    },
    get size() {
      return all.size
    },
    destroy: async () => {
      await Promise.all([...all].map(async (client) => await client.destroy()))
    },
  }
}

/**
 * One request's use of a connection, which it gives back once, at the end, whatever its own code does. HOT PATH: a base
 * class and not a handler around another one, since undici calls it five times a request.
 */
export abstract class Turn implements Dispatcher.DispatchHandler {
  #client: Client | undefined
  #release: ((client: Client) => void) | undefined

  /** To be called by the connections alone, just before the request is dispatched. */
  begin(client: Client, release: (client: Client) => void): void {
    this.#client = client
    this.#release = release
  }

  /** To be called by the connections alone, where too many wait for one. */
  refuse(): void {
    this.failed(new NoConnectionError())
  }

  /** Whether nobody waits for the answer any more. */
  abstract isOver(): boolean

  abstract onRequestStart(controller: Dispatcher.DispatchController): void

  abstract onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void

  abstract onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void

  /** The answer has ended. */
  protected abstract ended(): void

  /** There will be no answer, or no more of it. */
  protected abstract failed(error: Error): void

  onResponseEnd(): void {
    try {
      this.ended()
    } finally {
      this.#giveBack()
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    try {
      this.failed(error)
    } finally {
      this.#giveBack()
    }
  }

  #giveBack(): void {
    const client = this.#client
    if (client === undefined) return
    this.#client = undefined
    this.#release?.(client)
  }
}
