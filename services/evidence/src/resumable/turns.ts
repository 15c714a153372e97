/** A newer request ends the older one, whose connection may be dead. */
export interface Turns {
  /** The signal aborts when another request waits. */
  take<T>(id: string, work: (signal: AbortSignal) => Promise<T>): Promise<T>
}

interface Turn {
  readonly abort: AbortController
  readonly ended: Promise<unknown>
}

export function createTurns(): Turns {
  const turns = new Map<string, Turn>()
  return {
    take: async (id, work) => {
      const before = turns.get(id)
      before?.abort.abort()
      const abort = new AbortController()
      const run = async () => {
        await before?.ended
        return await work(abort.signal)
      }
      const result = run()
      const turn = { abort, ended: result.catch(() => undefined) }
      turns.set(id, turn)
      try {
        return await result
      } finally {
        if (turns.get(id) === turn) turns.delete(id)
      }
    },
  }
}
