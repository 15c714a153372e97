import { setTimeout as sleep } from 'node:timers/promises'
import { type Hold, RunCancelled, RunLost, TenantSuspended } from './held-run.ts'

const lookEachMs = 2_000

/**
 * Aborts the signal with RunCancelled, RunLost or TenantSuspended when the run must stop. An unreachable database
 * aborts nothing.
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
