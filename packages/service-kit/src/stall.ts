import { runAfterPendingReads } from './late-process.ts'

export interface Stall {
  refresh(): void
  stop(): void
}

/** Calls `onStall` after `stallMs` without `refresh`. The time does not count while `isHeld`. */
export function watchStall(
  stallMs: number,
  { isHeld, onStall }: { readonly isHeld: () => boolean; readonly onStall: () => void },
): Stall {
  let hasCome = false
  let isOver = false
  const timer = setTimeout(() => {
    hasCome = false
    runAfterPendingReads(() => {
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
