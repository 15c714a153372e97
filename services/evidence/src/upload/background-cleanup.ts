import type { Logger } from '@postern/service-kit'

export interface BackgroundCleanup {
  /** Resolves after `maxWaitMs` at the latest. Never rejects; failures are left to the sweep. */
  run(work: (signal: AbortSignal) => Promise<void>): Promise<void>
  close(): Promise<void>
}

/** Much shorter than the gateway's timeout. */
const maxWaitMs = 5_000

export function openBackgroundCleanup(logger: Logger): BackgroundCleanup {
  const closing = new AbortController()
  const underWay = new Set<Promise<void>>()
  return {
    run: async (work) => {
      const task = attempt(work, closing.signal, logger)
      underWay.add(task)
      void task.finally(() => underWay.delete(task))
      await waitBriefly(task)
    },
    close: async () => {
      closing.abort()
      await waitBriefly(Promise.all(underWay))
    },
  }
}

async function attempt(work: (signal: AbortSignal) => Promise<void>, signal: AbortSignal, logger: Logger) {
  try {
    await work(signal)
  } catch (error) {
    logger.warn({ event: 'tidying_failed', err: error })
  }
}

async function waitBriefly(task: Promise<unknown>): Promise<void> {
  const limit = Promise.withResolvers<void>()
  const timer = setTimeout(limit.resolve, maxWaitMs)
  await Promise.race([task, limit.promise])
  clearTimeout(timer)
}
