import { setTimeout as delay } from 'node:timers/promises'
import { Agent, type Dispatcher } from 'undici'

/** A gateway as a load balancer sees it. */
export interface Target {
  readonly name: string
  readonly url: string
  readonly readyUrl: string
}

/** One request that was not answered as it should have been. */
export interface Failure {
  readonly at: string
  readonly operation: string
  readonly gateway: string
  /** The status, or what became of the connection. */
  readonly outcome: string
  readonly code: string | undefined
}

export interface Load {
  /** Answered as they should be since the start. */
  readonly succeeded: number
  readonly failures: readonly Failure[]
  /** Resolves when as many further requests have succeeded. */
  more(count: number): Promise<void>
  /** Makes no further requests, waits for those under way, and gives every failure. */
  stop(): Promise<readonly Failure[]>
}

interface Operation {
  readonly name: string
  readonly method: Dispatcher.HttpMethod
  readonly path: string
  readonly status: number
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Something of every service, half of it writes. */
const operations: readonly Operation[] = [
  { name: 'whoami', method: 'GET', path: '/api/v1/whoami', status: 200 },
  { name: 'findings.list', method: 'GET', path: '/api/v1/findings?limit=5', status: 200 },
  {
    name: 'findings.create',
    method: 'POST',
    path: '/api/v1/findings',
    status: 201,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'Under load', condition: 'Seen.', severity: 'low' }),
  },
  { name: 'entities.list', method: 'GET', path: '/api/v1/entities?limit=5', status: 200 },
  {
    name: 'entities.push',
    method: 'POST',
    path: '/api/v1/sync/entities',
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify([{ external_id: 'bank', name: 'Bank', type: 'legal_entity' }]),
  },
  {
    name: 'evidence.upload',
    method: 'POST',
    path: '/api/v1/evidence?file_name=a.txt',
    status: 201,
    headers: { 'content-type': 'text/plain' },
    body: 'Seen.',
  },
  { name: 'connectors.list', method: 'GET', path: '/api/v1/connectors', status: 200 },
]

/**
 * A steady load over gateways that are ready: as a load balancer it asks each for its readiness, and sends nothing to one
 * that says no. Nothing is repeated: what fails, counts.
 */
export function startLoad(options: {
  readonly targets: readonly Target[]
  readonly keys: readonly string[]
  readonly perSecond: number
}): Load {
  const { targets, keys, perSecond } = options
  const agent = new Agent({ connections: 64, headersTimeout: 60_000, bodyTimeout: 60_000, keepAliveTimeout: 4_000 })
  const failures: Failure[] = []
  const underWay = new Set<Promise<void>>()
  const waiting = new Set<() => void>()
  let ready: readonly Target[] = targets
  let succeeded = 0
  let begun = 0
  let stopped = false
  const startedAt = performance.now()

  async function isReady({ readyUrl }: Target): Promise<boolean> {
    try {
      const answer = await fetch(readyUrl, { signal: AbortSignal.timeout(2_000) })
      return answer.ok
    } catch {
      return false
    }
  }

  async function watch(): Promise<void> {
    while (!stopped) {
      const states = await Promise.all(targets.map(isReady))
      ready = targets.filter((_target, index) => states[index] === true)
      await delay(250)
    }
  }

  async function send(operation: Operation, target: Target, key: string): Promise<void> {
    let outcome: string
    let code: string | undefined
    try {
      const { statusCode, body } = await agent.request({
        origin: target.url,
        path: operation.path,
        method: operation.method,
        headers: { authorization: `ApiKey ${key}`, ...operation.headers },
        body: operation.body ?? null,
      })
      const text = await body.text()
      if (statusCode === operation.status) {
        succeeded += 1
        for (const wake of waiting) wake()
        return
      }
      outcome = String(statusCode)
      code = /"code":"(\w+)"/.exec(text)?.[1]
    } catch (error) {
      outcome = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    }
    failures.push({ at: new Date().toISOString(), operation: operation.name, gateway: target.name, outcome, code })
  }

  // By the clock, so that a slow answer does not thin out the load.
  const ticks = setInterval(() => {
    const due = Math.floor(((performance.now() - startedAt) / 1000) * perSecond)
    for (; begun < due; begun += 1) {
      const target = ready[begun % Math.max(1, ready.length)]
      const operation = operations[begun % operations.length]
      const key = keys[begun % keys.length]
      if (target === undefined || operation === undefined || key === undefined) continue
      const task = send(operation, target, key)
      underWay.add(task)
      void task.then(() => underWay.delete(task))
    }
  }, 10)
  const watching = watch()

  return {
    get succeeded() {
      return succeeded
    },
    failures,
    more: async (count) => {
      const goal = succeeded + count
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const wake = (): void => (succeeded >= goal ? resolve() : undefined)
      const limit = setTimeout(() => reject(new Error(`no ${count} further requests succeeded in 180 s`)), 180_000)
      waiting.add(wake)
      try {
        await promise
      } finally {
        clearTimeout(limit)
        waiting.delete(wake)
      }
    },
    stop: async () => {
      stopped = true
      clearInterval(ticks)
      await Promise.all(underWay)
      await watching
      await agent.close()
      return failures
    },
  }
}
