import { type Dispatcher, Pool } from 'undici'
import { NoConnectionError } from './upstream-errors.ts'

export interface Connections {
  /** Waiting tenants are served in rotation. Fails with a NoConnectionError if too many wait. */
  dispatch(options: Dispatcher.DispatchOptions, handler: PooledRequest, tenantId: string): void
  destroy(): Promise<void>
}

interface Waiting {
  readonly options: Dispatcher.DispatchOptions
  readonly handler: PooledRequest
}

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>

/**
 * A tenant may have three times what is free, so something is always left for the next tenant (dynamic thresholds;
 * Choudhury and Hahne, 1998).
 */
function mayHaveMore(has: number, free: number): boolean {
  return has < 3 * free
}

export interface ConnectionLimits {
  readonly connections: number
  readonly perTenant: number
  readonly waiting: number
}

/** Opens connections on demand, each with one request at a time. */
export function openConnections(origin: string, limits: ConnectionLimits, options: Pool.Options): Connections {
  const pool = new Pool(origin, { ...options, connections: limits.connections, pipelining: 1 })
  let busy = 0
  const inUse = new Map<string, number>()
  /** The tenant to serve next comes first. */
  const waiting = new Map<string, Waiting[]>()
  let waitingCount = 0

  function release(tenantId: string): void {
    busy -= 1
    const left = (inUse.get(tenantId) ?? 0) - 1
    if (left > 0) inUse.set(tenantId, left)
    else inUse.delete(tenantId)
    while (waitingCount > 0 && serveOne());
  }

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
    const most = (request.body ?? null) === null ? limits.waiting : Math.min(limits.waiting, limits.perTenant)
    const mayWait = (): boolean => {
      const has = waiting.get(tenantId)?.length ?? 0
      return has < most && mayHaveMore(has, limits.waiting - waitingCount)
    }
    // Ended requests may wait behind a live one.
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
    busy += 1
    inUse.set(tenantId, (inUse.get(tenantId) ?? 0) + 1)
    handler.assignConnection(tenantId, release)
    pool.dispatch(request, handler)
  }

  return {
    dispatch: (request, handler, tenantId) => {
      if (isFreeFor(tenantId)) start(request, handler, tenantId)
      else wait(request, handler, tenantId)
    },
    destroy: async () => await pool.destroy(),
  }
}

/**
 * Releases its connection once, at its end, even if its own code throws. HOT PATH: a base class instead of a wrapper,
 * because undici calls it five times for each request.
 */
export abstract class PooledRequest implements Dispatcher.DispatchHandler {
  #tenantId = ''
  #release: ((tenantId: string) => void) | undefined

  assignConnection(tenantId: string, release: (tenantId: string) => void): void {
    this.#tenantId = tenantId
    this.#release = release
  }

  /** The connection may still be opening. */
  protected get hasConnection(): boolean {
    return this.#release !== undefined
  }

  refuse(): void {
    this.onFailure(new NoConnectionError())
  }

  abstract isOver(): boolean

  abstract onRequestStart(controller: Dispatcher.DispatchController): void

  abstract onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void

  abstract onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void

  protected abstract onEnd(): void

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
    const release = this.#release
    if (release === undefined) return
    this.#release = undefined
    release(this.#tenantId)
  }
}
