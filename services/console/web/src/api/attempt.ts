import { ApiProblem } from './request.ts'

/** What a person decides once, and may have to send more than once. */
export interface Attempt {
  /**
   * Sends a request under the id that names it to the API (Idempotency-Key). A request whose outcome is not known keeps its id, so that it is
   * carried out once. Every other request gets a new id.
   */
  carryOut<T>(request: unknown, send: (id: string) => Promise<T>): Promise<T>
  /** Whether a request was sent whose outcome is not known. */
  isOpen(): boolean
}

export function createAttempt(): Attempt {
  let last: { readonly request: string; readonly id: string } | undefined
  return {
    carryOut: async (request, send) => {
      const text = JSON.stringify(request)
      if (last?.request !== text) last = { request: text, id: crypto.randomUUID() }
      try {
        const answer = await send(last.id)
        last = undefined
        return answer
      } catch (error) {
        if (isRefusal(error)) last = undefined
        throw error
      }
    },
    isOpen: () => last !== undefined,
  }
}

/**
 * Whether an answer says for certain that nothing was done. A gateway or a proxy that gave up, and an earlier try that has no answer yet, do not
 * say what became of the request.
 */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof ApiProblem)) return false
  const { status, code } = error.problem
  return status < 500 && status !== 408 && code !== 'request_in_progress'
}
