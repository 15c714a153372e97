import type { Logger } from '@postern/service-kit'

/** What is done once the database has decided. Nothing of it changes what the sender is told. */
export interface Afterwards {
  /**
   * Resolves when the work is done or, where it takes longer, after `patienceMs`: then it goes on beside the answer. Never
   * rejects; what fails is logged, and done again by a sweep or as a leftover.
   */
  run(work: (signal: AbortSignal) => Promise<void>): Promise<void>
  /** Waits for what is under way, for as long as an answer would. Its signal tells the work to begin nothing more. */
  close(): Promise<void>
}

/** Far less than the gateway waits for an answer: a receipt must not be late because its store is slow to tidy up. */
const patienceMs = 5_000

export function openAfterwards(logger: Logger): Afterwards {
  const closing = new AbortController()
  const underWay = new Set<Promise<void>>()
  return {
    run: async (work) => {
      const task = attempt(work, closing.signal, logger)
      underWay.add(task)
      void task.finally(() => underWay.delete(task))
      await withPatience(task)
    },
    close: async () => {
      closing.abort()
      await withPatience(Promise.all(underWay))
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

async function withPatience(task: Promise<unknown>): Promise<void> {
  let limit: NodeJS.Timeout | undefined
  const patience = new Promise<void>((resolve) => {
    limit = setTimeout(resolve, patienceMs)
  })
  await Promise.race([task, patience])
  clearTimeout(limit)
}
