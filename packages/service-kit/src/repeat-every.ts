/** Calls `work`, which must not reject, every `everyMs`, unless the last call has not ended. `stop` waits for that call. */
export function repeatEvery(everyMs: number, work: () => Promise<void>): { stop(): Promise<void> } {
  let running: Promise<void> | undefined
  const timer = setInterval(() => {
    running ??= work().finally(() => {
      running = undefined
    })
  }, everyMs)
  timer.unref()
  return {
    stop: async () => {
      clearInterval(timer)
      await running
    },
  }
}
