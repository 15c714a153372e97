import { onceRead } from './late-process.ts'

/** Tells of a sender from whom nothing comes. */
export interface Stall {
  /** To be called with whatever comes. */
  refresh(): void
  /** Harmless when repeated. */
  stop(): void
}

/**
 * Calls `onStall` once nothing has come for so long (milliseconds), as long as that is the sender's doing: while it is we
 * who do not take what it has, waiting for a store or a scanner, which have limits of their own, its time does not run.
 */
export function watchStall(
  stallMs: number,
  { isHeld, onStall }: { readonly isHeld: () => boolean; readonly onStall: () => void },
): Stall {
  let hasCome = false
  let isOver = false
  const timer = setTimeout(() => {
    hasCome = false
    onceRead(() => {
      if (isOver || hasCome) return
      if (isHeld()) timer.refresh()
      else onStall()
    })
  }, stallMs)
  return {
    refresh: () => {
      hasCome = true
      timer.refresh()
    },
    stop: () => {
      isOver = true
      clearTimeout(timer)
    },
  }
}
