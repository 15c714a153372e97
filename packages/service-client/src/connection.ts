/**
 * Options of undici for connections between services. INVARIANT: the client closes an idle connection sooner than a process
 * drains (POSTERN_DRAIN_MS, 3 s in deploy/). Otherwise the process would cut it, and lose a request that is sent just then.
 * undici's timers are up to a second late.
 */
export const idleConnections = { keepAliveTimeout: 1500, keepAliveMaxTimeout: 1500 } as const

const lostCodes: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

/**
 * Calls `ask`, and once more if its connection was refused or lost, as happens when a process ends: another process may
 * answer at once. Only for requests that change nothing however often they arrive. `ask` must sign each attempt anew.
 */
export async function askAgainOnce<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask()
  } catch (error) {
    if (!isConnectionLost(error)) throw error
    return await ask()
  }
}

function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if ('code' in error && lostCodes.has(error.code)) return true
  return error.cause !== undefined && isConnectionLost(error.cause)
}
