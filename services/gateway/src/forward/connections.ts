import { Client, type Dispatcher } from 'undici'
import { NoConnectionError } from './upstream-errors.ts'

/** The connections to one service. */
export interface Connections {
  /**
   * Sends a request on a free connection at once, or on the next that becomes free, in turn with other tenants. It fails where too many
   * wait already.
   */
  dispatch(options: Dispatcher.DispatchOptions, turn: Turn, tenantId: string): void
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

/**
 * Of what is free, a tenant may have three times as much: three quarters of all while it is alone, and where others have much, less.
 * Something is always left for who comes next (dynamic thresholds; Choudhury and Hahne, 1998): requests that drip in, or
 * answers that are read slowly, hold up nobody but their own tenant.
 */
function mayHaveMore(has: number, free: number): boolean {
  return has < 3 * free
}

/** Of each service. */
export interface ConnectionLimits {
  readonly connections: number
  /** As many of them as one tenant may have. */
  readonly perTenant: number
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
  let busy = 0
  /** Connections in use, by tenant. */
  const inUse = new Map<string, number>()
  /** By tenant, in the order of their turns. */
  const waiting = new Map<string, Waiting[]>()
  let waitingCount = 0

  function release(client: Client, tenantId: string): void {
    if (waitingCount === 0) giveBack(client, tenantId)
    // Not from within the client's own report of an end: it is still at work on it.
    else setImmediate(serveNext, client, tenantId)
  }

  function giveBack(client: Client, tenantId: string): void {
    busy -= 1
    const left = (inUse.get(tenantId) ?? 0) - 1
    if (left > 0) inUse.set(tenantId, left)
    else inUse.delete(tenantId)
    free.push(client)
  }

  function serveNext(client: Client, tenantId: string): void {
    giveBack(client, tenantId)
    while (serveOne());
  }

  /** Serves who has waited longest of the tenant whose turn it is, if any may be served. */
  function serveOne(): boolean {
    for (const [tenantId, requests] of waiting) {
      forgetEnded(tenantId, requests)
      const [next] = requests
      if (next === undefined || !isFreeFor(tenantId)) continue
      requests.shift()
      waitingCount -= 1
      waiting.delete(tenantId)
      if (requests.length > 0) waiting.set(tenantId, requests)
      start(next.options, next.turn, tenantId)
      return true
    }
    return false
  }

  /** Those who have given up need no connection any more. */
  function forgetEnded(tenantId: string, requests: Waiting[]): void {
    while (requests[0]?.turn.isOver() === true) {
      requests.shift()
      waitingCount -= 1
    }
    if (requests.length === 0) waiting.delete(tenantId)
  }

  function isFreeFor(tenantId: string): boolean {
    const has = inUse.get(tenantId) ?? 0
    return has < limits.perTenant && mayHaveMore(has, limits.connections - busy)
  }

  function wait(request: Dispatcher.DispatchOptions, turn: Turn, tenantId: string): void {
    // What has arrived of a body is held while it waits.
    const most = (request.body ?? null) === null ? limits.waiting : Math.min(limits.waiting, limits.perTenant)
    const mayWait = (): boolean => {
      const has = waiting.get(tenantId)?.length ?? 0
      return has < most && mayHaveMore(has, limits.waiting - waitingCount)
    }
    // The first may be patient while all behind it have left.
    if (!mayWait()) keepPatient()
    if (!mayWait()) {
      turn.refuse()
      return
    }
    const requests = waiting.get(tenantId) ?? []
    requests.push({ options: request, turn })
    waiting.set(tenantId, requests)
    waitingCount += 1
  }

  function keepPatient(): void {
    waitingCount = 0
    for (const [tenantId, requests] of waiting) {
      const patient = requests.filter(({ turn }) => !turn.isOver())
      if (patient.length === 0) waiting.delete(tenantId)
      else waiting.set(tenantId, patient)
      waitingCount += patient.length
    }
  }

  function start(request: Dispatcher.DispatchOptions, turn: Turn, tenantId: string): void {
    const client = free.pop() ?? open()
    if (free.length < leastFree) leastFree = free.length
    busy += 1
    inUse.set(tenantId, (inUse.get(tenantId) ?? 0) + 1)
    turn.begin(client, tenantId, release)
    client.dispatch(request, turn)
  }

  function open(): Client {
    // With 1, a client calls itself busy while its only request runs, and tells everyone when it no longer is. Two never
    // run at once all the same: it gets its next request when the one before has ended.
    const client = new Client(origin, { ...options, pipelining: 2 })
    all.add(client)
    return client
  }

  return {
    dispatch: (request, turn, tenantId) => {
      if (isFreeFor(tenantId)) start(request, turn, tenantId)
      else wait(request, turn, tenantId)
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
  #tenantId = ''
  #release: ((client: Client, tenantId: string) => void) | undefined

  /** To be called by the connections alone, just before the request is dispatched. */
  begin(client: Client, tenantId: string, release: (client: Client, tenantId: string) => void): void {
    this.#client = client
    this.#tenantId = tenantId
    this.#release = release
  }

  /** Whether a connection is there for it, which may still be opening. */
  protected get hasConnection(): boolean {
    return this.#client !== undefined
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
    this.#release?.(client, this.#tenantId)
  }
}
