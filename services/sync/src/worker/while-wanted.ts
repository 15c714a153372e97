import { setTimeout as sleep } from 'node:timers/promises'
import { type Hold, RunCancelled, RunLost, TenantSuspended } from './held-run.ts'

const lookEachMs = 2_000

/**
 * Does what may wait for somebody else for long, and ends it through its signal as soon as the run is not to go on: the signal's reason is
 * then RunCancelled, RunLost or TenantSuspended. That whoever looks cannot reach the database ends nothing.
 */
export async function whileWanted<T>(
  hold: Pick<Hold, 'assertWanted'>,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const [unwanted, over] = [new AbortController(), new AbortController()]
  const looking = lookUntil(AbortSignal.any([signal, over.signal]), async () => {
    await hold.assertWanted().catch((error: unknown) => {
      if (error instanceof RunCancelled || error instanceof RunLost || error instanceof TenantSuspended)
        unwanted.abort(error)
    })
    return !unwanted.signal.aborted
  })
  try {
    return await work(AbortSignal.any([signal, unwanted.signal]))
  } catch (error) {
    // Whatever broke first when the work was ended, this is why.
    unwanted.signal.throwIfAborted()
    throw error
  } finally {
    over.abort()
    await looking
  }
}

async function lookUntil(signal: AbortSignal, look: () => Promise<boolean>): Promise<void> {
  for (;;) {
    const isTime = await sleep(lookEachMs, true, { signal }).catch(() => false)
    if (!isTime || !(await look())) return
  }
}
