/**
 * INVARIANT: the client closes an idle connection before the other process has drained (POSTERN_DRAIN_MS), which would
 * lose a request. undici's timers are up to a second late.
 */
export const idleConnections = { keepAliveTimeout: 1500, keepAliveMaxTimeout: 1500 } as const

const lostCodes: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

/** Repeats a request whose connection was lost. Only for requests that change nothing; `ask` must sign each attempt. */
export async function retryOnce<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
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
