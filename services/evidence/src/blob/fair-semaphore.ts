/** Permits for several tenants, of which each gets at most half. */
export interface FairSemaphore {
  /**
   * Returns a function that releases the permit. Serves the tenant with the fewest permits first. Rejects after `waitMs`
   * or on abort.
   */
  acquire(tenantId: string, signal?: AbortSignal): Promise<() => void>
}

interface Waiter {
  readonly tenantId: string
  readonly grant: () => void
}

export function createFairSemaphore(
  permits: number,
  { waitMs, timeoutError }: { readonly waitMs: number; readonly timeoutError: () => Error },
): FairSemaphore {
  const share = Math.ceil(permits / 2)
  const heldBy = new Map<string, number>()
  const waiting = new Set<Waiter>()
  let free = permits
  const heldOf = (tenantId: string): number => heldBy.get(tenantId) ?? 0

  function count(tenantId: string, change: 1 | -1): void {
    free -= change
    const held = heldOf(tenantId) + change
    if (held === 0) heldBy.delete(tenantId)
    else heldBy.set(tenantId, held)
  }

  function nextWaiter(): Waiter | undefined {
    let next: Waiter | undefined
    for (const waiter of waiting) {
      if (next === undefined || heldOf(waiter.tenantId) < heldOf(next.tenantId)) next = waiter
    }
    return next !== undefined && heldOf(next.tenantId) < share ? next : undefined
  }

  function grantFree(): void {
    while (free > 0) {
      const waiter = nextWaiter()
      if (waiter === undefined) return
      count(waiter.tenantId, 1)
      waiter.grant()
    }
  }

  async function wait(tenantId: string, signal: AbortSignal | undefined): Promise<void> {
    const granted = Promise.withResolvers<void>()
    const waiter: Waiter = { tenantId, grant: () => leave(granted.resolve) }
    const onAbort = () => leave(() => granted.reject(signal?.reason))
    const timer = setTimeout(() => leave(() => granted.reject(timeoutError())), waitMs)
    function leave(end: () => void): void {
      waiting.delete(waiter)
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      end()
    }
    waiting.add(waiter)
    signal?.addEventListener('abort', onAbort)
    await granted.promise
  }

  return {
    acquire: async (tenantId, signal) => {
      signal?.throwIfAborted()
      if (free > 0 && heldOf(tenantId) < share) count(tenantId, 1)
      else await wait(tenantId, signal)
      let isHeld = true
      return () => {
        if (!isHeld) return
        isHeld = false
        count(tenantId, -1)
        grantFree()
      }
    },
  }
}
