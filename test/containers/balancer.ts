import { setTimeout as delay } from 'node:timers/promises'
import type { Installation } from './compose.ts'

/** What a load balancer in front of the gateways knows. */
export interface Balancer {
  /** Whether the gateway at this origin said that it is ready when it was last asked. */
  isReady(gateway: string): boolean
  stop(): Promise<void>
}

/** A gateway that drains says so for 3 s before it takes nothing new. */
const everyMs = 250

/** Asks every gateway for its readiness, four times a second. */
export function startBalancer(gateways: Installation['gateways']): Balancer {
  const ready = new Map(gateways.map(({ url }) => [url, true]))
  let stopped = false
  const watch = async ({ url, readyUrl }: Installation['gateways'][number]): Promise<void> => {
    while (!stopped) {
      const answer = await fetch(readyUrl, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined)
      ready.set(url, answer?.ok === true)
      await answer?.body?.cancel()
      await delay(everyMs)
    }
  }
  const watching = gateways.map(watch)
  return {
    isReady: (gateway) => ready.get(gateway) === true,
    stop: async () => {
      stopped = true
      await Promise.all(watching)
    },
  }
}
