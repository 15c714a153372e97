import { setTimeout as sleep } from 'node:timers/promises'
import { type RunLease, RunCancelledError, RunLostError, TenantSuspendedError } from './run-lease.ts'

const pollEveryMs = 2_000

/**
 * Aborts the signal with RunCancelledError, RunLostError or TenantSuspendedError when the run must stop. An unreachable database
 * aborts nothing.
 */
export async function runWhileWanted<T>(
  lease: Pick<RunLease, 'assertWanted'>,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const [unwanted, over] = [new AbortController(), new AbortController()]
  const polling = pollUntil(AbortSignal.any([signal, over.signal]), async () => {
    await lease.assertWanted().catch((error: unknown) => {
      if (error instanceof RunCancelledError || error instanceof RunLostError || error instanceof TenantSuspendedError)
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
    await polling
  }
}

async function pollUntil(signal: AbortSignal, poll: () => Promise<boolean>): Promise<void> {
  for (;;) {
    const isTime = await sleep(pollEveryMs, true, { signal }).catch(() => false)
    if (!isTime || !(await poll())) return
  }
}
