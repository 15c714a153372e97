import type { Failure } from './stalls.ts'

export class WrongAnswerError extends Error {
  override readonly name = 'WrongAnswerError'
  readonly status: number
  readonly code: string | undefined

  constructor(what: string, { status, text }: { readonly status: number; readonly text: string }) {
    super(`${what}: ${status} ${text}`)
    this.status = status
    this.code = /"code":"([a-z_]+)"/.exec(text)?.[1]
  }
}

export function failureOf(error: unknown, startedAt: number): Failure {
  const given = error instanceof WrongAnswerError ? { status: error.status, code: error.code } : {}
  return { text: String(error), startedAt, endedAt: performance.now(), ...given }
}
