/**
 * Options of undici for connections between services. INVARIANT: whoever opened a connection closes it when it is idle, and
 * sooner than a process drains (POSTERN_DRAIN_MS, 3 s in deploy/): a drain asks for each connection to be closed that it
 * answers on, and what is idle for all that time must be gone when the process cuts the rest. A request that is sent just
 * then would be lost. undici's timers are up to a second late.
 */
export const idleConnections = { keepAliveTimeout: 1500, keepAliveMaxTimeout: 1500 } as const

const lost: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

/**
 * Asks, and once more where the connection was refused or broke off, as it does when a process ends: another process may
 * answer at once. For questions alone, which change nothing however often they arrive; each attempt must be signed anew.
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
  if ('code' in error && lost.has(error.code)) return true
  // fetch wraps what happened to its connection.
  return error.cause !== undefined && isConnectionLost(error.cause)
}
