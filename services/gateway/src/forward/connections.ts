import { Client, type Dispatcher } from 'undici'
import { NoConnectionError } from './upstream-errors.ts'

/** The connections to one service. */
export interface Connections {
  /**
   * Sends a request on a free connection, or on the next one that becomes free; tenants that wait are served in rotation. The request
   * fails with a NoConnectionError if too many wait.
   */
  dispatch(options: Dispatcher.DispatchOptions, handler: PooledRequest, tenantId: string): void
  /** Closes connections that were not used since the last call, to free their memory. */
  prune(): void
  /** The number of connections in memory, open or not. */
  readonly size: number
  /** Closes all connections at once. */
  destroy(): Promise<void>
}

interface Waiting {
  readonly options: Dispatcher.DispatchOptions
  readonly handler: PooledRequest
}

/** Headers of an answer by their lower-case names. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>

/**
 * A tenant may have three times what is free: three quarters of all while it is alone, and less beside others. Something is always left
 * for the next tenant (dynamic thresholds; Choudhury and Hahne, 1998).
 */
function mayHaveMore(has: number, free: number): boolean {
  return has < 3 * free
}

/** Limits for the connections to one service. */
export interface ConnectionLimits {
  readonly connections: number
  /** Connections that one tenant may use. */
  readonly perTenant: number
  /** Requests that may wait for a connection. */
  readonly waiting: number
}

/**
 * Opens up to `limits.connections` connections to an origin as they are needed, each with one request at a time.
 * HOT PATH: a stack of free connections, of which the last used one is used next. A closed connection stays in the stack and reconnects.
 */
export function openConnections(origin: string, limits: ConnectionLimits, options: Client.Options): Connections {
  const free: Client[] = []
  const all = new Set<Client>()
  /** The lowest number of free connections since the last prune. As many at the bottom of the stack were not used. */
  let leastFree = 0
  let busy = 0
  /** Connections in use, by tenant. */
  const inUse = new Map<string, number>()
  /** By tenant; the tenant to serve next comes first. */
  const waiting = new Map<string, Waiting[]>()
  let waitingCount = 0

  function release(client: Client, tenantId: string): void {
    if (waitingCount === 0) returnConnection(client, tenantId)
    // Later, because the client is still handling the end of its request.
    else setImmediate(serveNext, client, tenantId)
  }

  function returnConnection(client: Client, tenantId: string): void {
    busy -= 1
    const left = (inUse.get(tenantId) ?? 0) - 1
    if (left > 0) inUse.set(tenantId, left)
    else inUse.delete(tenantId)
    free.push(client)
  }

  function serveNext(client: Client, tenantId: string): void {
    returnConnection(client, tenantId)
    while (serveOne());
  }

  /** Starts the oldest request of the first tenant that may have a connection. Returns whether there was one. */
  function serveOne(): boolean {
    for (const [tenantId, requests] of waiting) {
      dropEnded(tenantId, requests)
      const [next] = requests
      if (next === undefined || !isFreeFor(tenantId)) continue
      requests.shift()
      waitingCount -= 1
      waiting.delete(tenantId)
      if (requests.length > 0) waiting.set(tenantId, requests)
      start(next.options, next.handler, tenantId)
      return true
    }
    return false
  }

  /** Drops the first requests of a tenant that no longer need a connection. */
  function dropEnded(tenantId: string, requests: Waiting[]): void {
    while (requests[0]?.handler.isOver() === true) {
      requests.shift()
      waitingCount -= 1
    }
    if (requests.length === 0) waiting.delete(tenantId)
  }

  function isFreeFor(tenantId: string): boolean {
    const has = inUse.get(tenantId) ?? 0
    return has < limits.perTenant && mayHaveMore(has, limits.connections - busy)
  }

  function wait(request: Dispatcher.DispatchOptions, handler: PooledRequest, tenantId: string): void {
    // Fewer requests with bodies may wait, because the gateway holds what has arrived of a body.
    const most = (request.body ?? null) === null ? limits.waiting : Math.min(limits.waiting, limits.perTenant)
    const mayWait = (): boolean => {
      const has = waiting.get(tenantId)?.length ?? 0
      return has < most && mayHaveMore(has, limits.waiting - waitingCount)
    }
    // The first request may still be live after the requests behind it have ended.
    if (!mayWait()) dropEndedRequests()
    if (!mayWait()) {
      handler.refuse()
      return
    }
    const requests = waiting.get(tenantId) ?? []
    requests.push({ options: request, handler })
    waiting.set(tenantId, requests)
    waitingCount += 1
  }

  function dropEndedRequests(): void {
    waitingCount = 0
    for (const [tenantId, requests] of waiting) {
      const live = requests.filter(({ handler }) => !handler.isOver())
      if (live.length === 0) waiting.delete(tenantId)
      else waiting.set(tenantId, live)
      waitingCount += live.length
    }
  }

  function start(request: Dispatcher.DispatchOptions, handler: PooledRequest, tenantId: string): void {
    const client = free.pop() ?? open()
    if (free.length < leastFree) leastFree = free.length
    busy += 1
    inUse.set(tenantId, (inUse.get(tenantId) ?? 0) + 1)
    handler.assignConnection(client, tenantId, release)
    client.dispatch(request, handler)
  }

  function open(): Client {
    // With 1, a client emits `drain` after each request. No two requests run at once all the same: a client gets its next one
    // when the one before has ended.
    const client = new Client(origin, { ...options, pipelining: 2 })
    all.add(client)
    return client
  }

  return {
    dispatch: (request, handler, tenantId) => {
      if (isFreeFor(tenantId)) start(request, handler, tenantId)
      else wait(request, handler, tenantId)
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
 * A request that uses one connection and releases it once, at its end, even if its own code throws. HOT PATH: a base class instead of a
 * wrapper, because undici calls it five times for each request.
 */
export abstract class PooledRequest implements Dispatcher.DispatchHandler {
  #client: Client | undefined
  #tenantId = ''
  #release: ((client: Client, tenantId: string) => void) | undefined

  /** Called by `openConnections` just before the request is dispatched. */
  assignConnection(client: Client, tenantId: string, release: (client: Client, tenantId: string) => void): void {
    this.#client = client
    this.#tenantId = tenantId
    this.#release = release
  }

  /** Whether the request has a connection, which may still be opening. */
  protected get hasConnection(): boolean {
    return this.#client !== undefined
  }

  /** Called by `openConnections` if too many requests wait. */
  refuse(): void {
    this.onFailure(new NoConnectionError())
  }

  /** Whether the client no longer waits for the answer. */
  abstract isOver(): boolean

  abstract onRequestStart(controller: Dispatcher.DispatchController): void

  abstract onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void

  abstract onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void

  /** Called when the answer has ended. */
  protected abstract onEnd(): void

  /** Called when there is no answer, or no more of it. */
  protected abstract onFailure(error: Error): void

  onResponseEnd(): void {
    try {
      this.onEnd()
    } finally {
      this.#returnConnection()
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    try {
      this.onFailure(error)
    } finally {
      this.#returnConnection()
    }
  }

  #returnConnection(): void {
    const client = this.#client
    if (client === undefined) return
    this.#client = undefined
    this.#release?.(client, this.#tenantId)
  }
}
