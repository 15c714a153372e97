import { setTimeout as delay } from 'node:timers/promises'
import type { Installation } from './compose.ts'

/** What a load balancer in front of the gateways knows. */
export interface Balancer {
  /** Whether the gateway at this origin is one to send to, by what it was last asked. */
  isReady(gateway: string): boolean
  stop(): Promise<void>
}

/** A gateway that drains says so for 3 s before it takes nothing new. */
const everyMs = 250
const patienceMs = 2_000
/** As balancers do: silence may be the way's, or the balancer's own, and who stays silent is given up for lost. */
const silencesBeforeOut = 3

/**
 * Asks every gateway for its readiness, four times a second. One that says that it is not ready, or refuses the connection, is
 * out at once; one that does not say anything in time is out after the third time.
 */
export function startBalancer(gateways: Installation['gateways']): Balancer {
  const ready = new Map(gateways.map(({ url }) => [url, true]))
  let stopped = false
  const watch = async ({ url, readyUrl }: Installation['gateways'][number]): Promise<void> => {
    let silences = 0
    while (!stopped) {
      const said = await ask(readyUrl)
      silences = said === 'silence' ? silences + 1 : 0
      if (said !== 'silence') ready.set(url, said === 'ready')
      else if (silences >= silencesBeforeOut) ready.set(url, false)
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

async function ask(url: string): Promise<'ready' | 'not ready' | 'silence'> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(patienceMs) })
    await answer.body?.cancel()
    return answer.ok ? 'ready' : 'not ready'
  } catch (error) {
    return error instanceof DOMException && error.name === 'TimeoutError' ? 'silence' : 'not ready'
  }
}
