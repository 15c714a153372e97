import { totalmem } from 'node:os'
import { problem } from '@postern/service-kit'
import { partBytes } from './part-buffer.ts'

/** Memory for so many parts of objects at a time, whoever's they are. */
export interface PartRoom {
  /**
   * Room for one part, in the order of asking; gives what gives it back, harmless when repeated. Rejects with a 503 where none is
   * given back in time.
   */
  take(): Promise<() => void>
  /** Whether somebody waits. */
  isAwaited(): boolean
}

/** `most` parts at a time; whoever finds none waits for `waitMs` milliseconds. */
export function openPartRoom(most: number, waitMs: number): PartRoom {
  let free = most
  const waiting = new Set<() => void>()
  const turn = async (): Promise<void> =>
    await new Promise((resolve, reject) => {
      const give = (): void => {
        clearTimeout(limit)
        waiting.delete(give)
        resolve()
      }
      const limit = setTimeout(() => {
        waiting.delete(give)
        reject(
          problem('service_unavailable', {
            detail:
              'More files come than the store of evidence takes at present. Nothing was kept; send the file again later.',
            retryAfterSeconds: 30,
          }),
        )
      }, waitMs)
      waiting.add(give)
    })
  return {
    isAwaited: () => waiting.size > 0,
    take: async () => {
      if (free > 0) free -= 1
      else await turn()
      let isBack = false
      return () => {
        if (isBack) return
        isBack = true
        const [next] = waiting
        if (next === undefined) free += 1
        else next()
      }
    },
  }
}

/** How many parts take half of the memory that the process may have: that of its container, else that of the machine. */
export function partsInMemory(): number {
  const constrained = process.constrainedMemory()
  const memory = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
  return Math.min(256, Math.max(4, Math.floor(memory / 2 / partBytes)))
}
