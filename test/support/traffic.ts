import { Agent } from 'undici'
import type { Key, Operation, Request } from './promises.ts'

/** A key that requests are made with. */
export interface Credential extends Key {
  readonly value: string
}

/** A steady load: as many requests a second as asked for, whatever becomes of them, unless the machine cannot serve them. */
export interface Traffic {
  readonly requests: readonly Request[]
  /** The key takes part in the load until it is removed. */
  add(credential: Credential): void
  remove(credential: Credential): void
  /** Resolves with the next request, from now on, that has ended and that `matches`. */
  ended(what: string, matches: (request: Request) => boolean): Promise<Request>
  /** Resolves when the next request that `matches` has been sent. */
  sent(what: string, matches: (request: Pick<Request, 'gateway' | 'keyId'>) => boolean): Promise<void>
  /** Makes no further requests and waits for those under way. */
  stop(): Promise<void>
}

interface Waiter<T> {
  readonly matches: (value: T) => boolean
  readonly resolve: (value: T) => void
}

/** Half of the requests stop at the gateway, the others reach PostgreSQL; of these every second one writes. */
const usual: readonly Operation[] = ['whoami', 'list', 'whoami', 'create']
const answerTimeoutMs = 60_000
/** A system that has not recovered by then fails the wait. */
const patienceMs = 120_000
/** More requests of an operation wait at a gateway only if it answers none of them. A slow machine would serve none in time. */
const mostWaiting = 16
const silentMs = 2000

export interface TrafficOptions {
  readonly gateways: readonly string[]
  readonly perSecond: number
  /** Begins the names of what is written. Default `write`. */
  readonly prefix?: string
  /** The operations of each key in order. */
  readonly sequence?: readonly Operation[]
  /** Whether each push brings an entity of its own, which is then found among the writes. Default: all bring the same. */
  readonly pushesNew?: boolean
  /**
   * Whether a gateway is ready, as a load balancer knows it. Requests go to ready gateways if there are any. Default:
   * to all.
   */
  readonly isReady?: (gateway: string) => boolean
}

/** Starts a load over the gateways and over the keys that are added to it. */
export function startTraffic(options: TrafficOptions): Traffic {
  const { gateways, perSecond, prefix = 'write', sequence = usual, pushesNew = false, isReady = () => true } = options
  const requests: Request[] = []
  const credentials: Credential[] = []
  const connections = new Agent({ connections: 512, headersTimeout: answerTimeoutMs, bodyTimeout: answerTimeoutMs })
  const onEnd = new Set<Waiter<Request>>()
  const onSend = new Set<Waiter<Pick<Request, 'gateway' | 'keyId'>>>()
  const underWay = new Set<Promise<void>>()
  /** By gateway and operation. */
  const streams = new Map<string, { waiting: number; answeredAt: number }>()
  const startedAt = performance.now()
  let begun = 0

  async function requestUnlessBusy(
    ...[gateway, credential, operation, turn]: Parameters<typeof request>
  ): Promise<void> {
    const name = `${gateway} ${operation}`
    const stream = streams.get(name) ?? { waiting: 0, answeredAt: performance.now() }
    streams.set(name, stream)
    if (stream.waiting >= mostWaiting && performance.now() - stream.answeredAt < silentMs) return
    stream.waiting += 1
    await request(gateway, credential, operation, turn)
    stream.waiting -= 1
    stream.answeredAt = performance.now()
  }

  function tell<T>(waiters: Set<Waiter<T>>, value: T): void {
    for (const waiter of waiters) {
      if (!waiter.matches(value)) continue
      waiters.delete(waiter)
      waiter.resolve(value)
    }
  }

  async function wait<T>(waiters: Set<Waiter<T>>, what: string, matches: (value: T) => boolean): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const waiter = { matches, resolve }
    waiters.add(waiter)
    const from = requests.length
    const limit = setTimeout(() => {
      waiters.delete(waiter)
      const meanwhile = describeAnswers(requests.slice(from))
      reject(new Error(`did not come to pass in ${patienceMs / 1000} s: ${what}. Answers meanwhile: ${meanwhile}`))
    }, patienceMs)
    try {
      return await promise
    } finally {
      clearTimeout(limit)
    }
  }

  async function request(gateway: string, credential: Credential, operation: Operation, turn: number): Promise<void> {
    const { id: keyId, tenantId, value } = credential
    const isNamed = operation === 'create' || operation === 'upload' || (operation === 'push' && pushesNew)
    const externalId = isNamed ? `${prefix}-${turn}` : undefined
    const begin = { startedAt: performance.now(), startedWall: Date.now() }
    tell(onSend, { gateway, keyId })
    let answer: { status: number; json: unknown } = { status: 0, json: undefined }
    try {
      const { statusCode, body } = await connections.request({
        origin: gateway,
        ...requestOf(operation, tenantId, externalId),
        headers: {
          authorization: `ApiKey ${value}`,
          'content-type': operation === 'upload' ? 'text/plain' : 'application/json',
        },
      })
      answer = { status: statusCode, json: parse(await body.text()) }
    } catch {
      // No answer, or half of one: status 0.
    }
    const seen: Request = {
      operation,
      keyId,
      tenantId,
      gateway,
      ...begin,
      endedAt: performance.now(),
      endedWall: Date.now(),
      status: answer.status,
      code: textOf(answer.json, 'code'),
      detail: textOf(answer.json, 'detail'),
      externalId,
      tenantsSeen: answer.status >= 200 && answer.status < 300 ? tenantsIn(operation, answer.json) : [],
    }
    requests.push(seen)
    tell(onEnd, seen)
  }

  // By the clock, so that a slow answer does not thin out the load that it should be measured under.
  const ticks = setInterval(() => {
    const due = Math.floor(((performance.now() - startedAt) / 1000) * perSecond)
    for (; begun < due; begun += 1) {
      const turn = Math.floor(begun / gateways.length)
      const own = gateways[begun % gateways.length]
      const gateway = own === undefined || isReady(own) ? own : (gateways.find((each) => isReady(each)) ?? own)
      const credential = credentials[turn % Math.max(1, credentials.length)]
      // Each key does one after the other, and at any moment they do different things.
      const round = Math.floor(turn / Math.max(1, credentials.length))
      const operation = sequence[((turn % Math.max(1, credentials.length)) + round) % sequence.length]
      if (gateway === undefined || credential === undefined || operation === undefined) continue
      const task = requestUnlessBusy(gateway, credential, operation, begun)
      underWay.add(task)
      void task.then(() => underWay.delete(task))
    }
  }, 5)

  return {
    requests,
    add: (credential) => void credentials.push(credential),
    remove: (credential) => void credentials.splice(credentials.indexOf(credential), 1),
    ended: async (what, matches) => await wait(onEnd, what, matches),
    sent: async (what, matches) => void (await wait(onSend, what, matches)),
    stop: async () => {
      clearInterval(ticks)
      await Promise.all(underWay)
      await connections.close()
    },
  }
}

function requestOf(operation: Operation, tenantId: string, externalId: string | undefined) {
  switch (operation) {
    case 'whoami':
      return { method: 'GET', path: '/api/v1/whoami' } as const
    case 'list':
      return { method: 'GET', path: '/api/v1/findings?limit=5' } as const
    case 'create': {
      // Each title names its tenant, so that an answer shows whose data it holds.
      const finding = { external_id: externalId, title: titleOf(tenantId), condition: 'Seen.', severity: 'low' }
      return { method: 'POST', path: '/api/v1/findings', body: JSON.stringify(finding) } as const
    }
    case 'entities':
      return { method: 'GET', path: '/api/v1/entities?limit=5' } as const
    case 'push': {
      const entity = { external_id: externalId ?? 'bank', name: titleOf(tenantId), type: 'legal_entity' }
      return { method: 'POST', path: '/api/v1/sync/entities', body: JSON.stringify([entity]) } as const
    }
    case 'upload':
      // Each its own bytes: those of a tenant that are the same wait for each other.
      return {
        method: 'POST',
        path: `/api/v1/evidence?file_name=${externalId}`,
        body: `${titleOf(tenantId)}, ${externalId}`,
      } as const
    case 'connectors':
      return { method: 'GET', path: '/api/v1/connectors' } as const
    default:
      return operation satisfies never
  }
}

const titlePattern = /^of tenant ([0-9a-f-]{36})$/

function titleOf(tenantId: string): string {
  return `of tenant ${tenantId}`
}

/** The tenants whose data an answer holds; 'unknown' for what bears no tenant's mark. */
function tenantsIn(operation: Operation, json: unknown): string[] {
  if (operation === 'whoami') {
    const tenant = typeof json === 'object' && json !== null && 'tenant' in json ? json.tenant : undefined
    return [textOf(tenant, 'id') ?? 'unknown']
  }
  // What these answer bears no tenant's mark.
  if (operation === 'push' || operation === 'upload' || operation === 'connectors') return []
  const member = operation === 'entities' ? 'name' : 'title'
  const items: readonly unknown[] = Array.isArray(json) ? json : [json]
  const tenants = items.map((item) => titlePattern.exec(textOf(item, member) ?? '')?.[1] ?? 'unknown')
  return [...new Set(tenants)]
}

/** Counts answers by operation, status and code. */
function describeAnswers(requests: readonly Request[]): string {
  const kinds = Map.groupBy(requests, ({ operation, status, code }) => `${operation} ${status} ${code ?? ''}`.trimEnd())
  return [...kinds].map(([kind, { length }]) => `${length} × ${kind}`).join(', ')
}

function textOf(json: unknown, name: string): string | undefined {
  const value = typeof json === 'object' && json !== null ? Reflect.get(json, name) : undefined
  return typeof value === 'string' ? value : undefined
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
