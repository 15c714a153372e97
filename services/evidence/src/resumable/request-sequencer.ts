/** Runs requests for one upload one after the other. A newer one ends the older one, whose connection may be dead. */
export interface RequestSequencer {
  /** The signal aborts when another request waits. */
  run<T>(id: string, work: (signal: AbortSignal) => Promise<T>): Promise<T>
}

interface RunningRequest {
  readonly abort: AbortController
  readonly ended: Promise<unknown>
}

export function createRequestSequencer(): RequestSequencer {
  const running = new Map<string, RunningRequest>()
  return {
    run: async (id, work) => {
      const before = running.get(id)
      before?.abort.abort()
      const abort = new AbortController()
      const start = async () => {
        await before?.ended
        return await work(abort.signal)
      }
      const result = start()
      const current = { abort, ended: result.catch(() => undefined) }
      running.set(id, current)
      try {
        return await result
      } finally {
        if (running.get(id) === current) running.delete(id)
      }
    },
  }
}
