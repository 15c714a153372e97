import { Client, type Dispatcher } from 'undici'

/** The connections to one service. */
export interface Connections {
  /** Sends a request on a free connection at once, or on the next that becomes free. */
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): unknown
  /** Cuts all connections. */
  destroy(): Promise<void>
}

interface Waiting {
  readonly options: Dispatcher.DispatchOptions
  readonly handler: Dispatcher.DispatchHandler
}

/**
 * Opens up to `limit` connections to an origin as they are needed, each with one request at a time.
 *
 * HOT PATH: undici's own pool searches all its connections twice for every request, and has each announce by an event
 * that it is free. Here the one that was used last is on top of a stack. A connection that was closed, by either side,
 * stays in the stack and connects anew.
 */
export function openConnections(origin: string, limit: number, options: Client.Options): Connections {
  const free: Client[] = []
  const all: Client[] = []
  const waiting: Waiting[] = []

  function release(client: Client): void {
    if (waiting.length === 0) free.push(client)
    // Not from within the client's own report of an end: it is still at work on it.
    else setImmediate(serveNext, client)
  }

  function serveNext(client: Client): void {
    const next = waiting.shift()
    if (next === undefined) free.push(client)
    else client.dispatch(next.options, new Turn(client, next.handler, release))
  }

  function open(): Client | undefined {
    if (all.length === limit) return undefined
    // With 1, a client calls itself busy while its only request runs, and tells everyone when it no longer is. Two never
    // run at once all the same: it gets its next request when the one before has ended.
    const client = new Client(origin, { ...options, pipelining: 2 })
    all.push(client)
    return client
  }

  return {
    dispatch: (request, handler) => {
      const client = free.pop() ?? open()
      if (client === undefined) waiting.push({ options: request, handler })
      else client.dispatch(request, new Turn(client, handler, release))
    },
    destroy: async () => {
      await Promise.all(all.map(async (client) => await client.destroy()))
    },
  }
}

/** One request's use of a connection: passes on all that happens, and gives the connection back once, at the end. */
class Turn implements Dispatcher.DispatchHandler {
  readonly #client: Client
  readonly #handler: Dispatcher.DispatchHandler
  readonly #release: (client: Client) => void
  #ended = false

  constructor(client: Client, handler: Dispatcher.DispatchHandler, release: (client: Client) => void) {
    this.#client = client
    this.#handler = handler
    this.#release = release
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.#handler.onRequestStart?.(controller, context)
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2],
  ): void {
    this.#handler.onResponseStart?.(controller, status, headers)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#handler.onResponseData?.(controller, chunk)
  }

  onResponseEnd(
    controller: Dispatcher.DispatchController,
    trailers: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseEnd']>>[1],
  ): void {
    try {
      this.#handler.onResponseEnd?.(controller, trailers)
    } finally {
      this.#end()
    }
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    try {
      this.#handler.onResponseError?.(controller, error)
    } finally {
      this.#end()
    }
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#release(this.#client)
  }
}
