import { onceRead } from './late-process.ts'

/** Reports a sender that sends nothing. */
export interface Stall {
  /** To be called with whatever comes. */
  refresh(): void
  /** Harmless when repeated. */
  stop(): void
}

/**
 * Calls `onStall` if nothing arrives for this long, in milliseconds. The time stops while we do not read, for example
 * because a store is busy.
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
