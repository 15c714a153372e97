import { setTimeout as delay } from 'node:timers/promises'
import type { Installation } from './compose.ts'

export interface Balancer {
  isReady(gateway: string): boolean
  stop(): Promise<void>
}

/** A draining gateway reports it for 3 s before it stops accepting requests. */
const everyMs = 250
const patienceMs = 2_000
/** One timeout may be the network's fault. */
const silencesBeforeOut = 3

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
