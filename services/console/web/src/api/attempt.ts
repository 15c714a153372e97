import { ApiProblem } from './request.ts'

/** A decision of a person, which may have to be sent more than once. */
export interface Attempt {
  /**
   * Sends a request with an Idempotency-Key. If the outcome is unknown, the next equal request uses the same key.
   * Otherwise it uses a new one.
   */
  carryOut<T>(request: unknown, send: (id: string) => Promise<T>): Promise<T>
  /** Whether the outcome of a request is unknown. */
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

/** Returns whether the response proves that nothing was done. A timeout, or a concurrent first attempt, does not. */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof ApiProblem)) return false
  const { status, code } = error.problem
  return status < 500 && status !== 408 && code !== 'request_in_progress'
}
