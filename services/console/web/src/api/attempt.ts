import { ApiProblem } from './request.ts'

/** What a person decides once, and may have to send more than once. */
export interface Attempt {
  /** What names the request to the API (Idempotency-Key): the same for the same request, so that it is carried out once, and another for another. */
  idOf(request: unknown): string
  /** To be told what became of it: only what was refused for certain may be sent as something new. */
  failed(error: unknown): void
}

export function createAttempt(): Attempt {
  let last: { readonly request: string; readonly id: string } | undefined
  return {
    idOf: (request) => {
      const text = JSON.stringify(request)
      if (last?.request !== text) last = { request: text, id: crypto.randomUUID() }
      return last.id
    },
    failed: (error) => {
      if (isRefusal(error)) last = undefined
    },
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
