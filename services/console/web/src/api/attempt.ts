import { ApiProblem } from './request.ts'

export interface Attempt {
  /** Sends with an Idempotency-Key, which an equal request reuses after an unknown outcome. */
  carryOut<T>(request: unknown, send: (id: string) => Promise<T>): Promise<T>
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

export function isRefusal(error: unknown): boolean {
  if (!(error instanceof ApiProblem)) return false
  const { status, code } = error.problem
  return status < 500 && status !== 408 && code !== 'request_in_progress'
}
