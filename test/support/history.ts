import { Agent } from 'undici'

/** One request of the load: start and end (monotonic milliseconds) and result. */
export interface Observation {
  readonly keyId: string
  readonly gateway: string
  readonly startedAt: number
  readonly endedAt: number
  /** 0: no response. */
  readonly status: number
}

export interface Target {
  readonly keyId: string
  readonly key: string
}

/** A steady load that records every request. */
export interface Load {
  readonly history: readonly Observation[]
  /** Waits until `isDone` holds for the observations of a key; checked after each one. */
  until(keyId: string, isDone: (history: readonly Observation[]) => boolean): Promise<void>
  stop(): Promise<void>
}

/**
 * Calls `path` with every key at every gateway in turn from `workers` loops. Keys can be added to and removed from
 * `targets`.
 */
export function startLoad(options: {
  readonly gateways: readonly string[]
  readonly targets: readonly Target[]
  readonly path: string
  readonly workers: number
}): Load {
  const { gateways, targets, path, workers } = options
  const history: Observation[] = []
  const ofKeys = new Map<string, Observation[]>()
  const waiting = new Set<{
    keyId: string
    isDone: (history: readonly Observation[]) => boolean
    resolve: () => void
  }>()
  const connections = new Agent({ connections: 64, headersTimeout: 10_000, bodyTimeout: 10_000 })
  let stopped = false
  let turn = 0

  async function once(): Promise<void> {
    const target = targets[Math.floor(turn / gateways.length) % Math.max(1, targets.length)]
    const gateway = gateways[turn % gateways.length]
    turn += 1
    if (target === undefined || gateway === undefined) {
      await new Promise(setImmediate)
      return
    }
    const startedAt = performance.now()
    let status = 0
    try {
      const answer = await connections.request({
        origin: gateway,
        path,
        method: 'GET',
        headers: { authorization: `ApiKey ${target.key}` },
      })
      status = answer.statusCode
      await answer.body.dump()
    } catch {
      status = 0
    }
    note({ keyId: target.keyId, gateway, startedAt, endedAt: performance.now(), status })
  }

  function note(observation: Observation): void {
    history.push(observation)
    const ofKey = ofKeys.get(observation.keyId) ?? []
    ofKeys.set(observation.keyId, ofKey)
    ofKey.push(observation)
    for (const wait of waiting) {
      if (wait.keyId !== observation.keyId || !wait.isDone(ofKey)) continue
      waiting.delete(wait)
      wait.resolve()
    }
  }

  const loops = Array.from({ length: workers }, async () => {
    while (!stopped) await once()
  })

  return {
    history,
    until: async (keyId, isDone) => {
      if (isDone(ofKeys.get(keyId) ?? [])) return
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.add({ keyId, isDone, resolve })
      await promise
    },
    stop: async () => {
      stopped = true
      await Promise.all(loops)
      await connections.close()
    },
  }
}

/** When the revocation of each key returned. */
export type Revocations = ReadonlyMap<string, number>

/** Returns accepted requests that started after their key's revocation had returned. There must be none. */
export function findViolations(history: readonly Observation[], revocations: Revocations): Observation[] {
  return history.filter(({ keyId, startedAt, status }) => {
    const revokedAt = revocations.get(keyId)
    return revokedAt !== undefined && startedAt > revokedAt && status >= 200 && status < 300
  })
}

/** Counts the statuses. */
export function countStatuses(history: readonly Observation[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of history) counts[status] = (counts[status] ?? 0) + 1
  return counts
}
