import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { NoAnswerError } from '@postern/service-client'
import type { SignedCaller } from '../signed-caller.ts'

export interface RetryLimits {
  readonly forMs?: number
  readonly firstDelayMs?: number
}

/** A repetition is safe after these, with the header of `repeatableHeaders`. */
const busyStatuses: ReadonlySet<number> = new Set([429, 502, 503, 504])
const maxDelayMs = 2_000

/** The last answer when the time is over. */
export async function retryWhileBusy<Answer>(
  ask: () => Promise<Answer>,
  statusOf: (answer: Answer) => number,
  { forMs = 120_000, firstDelayMs = 100 }: RetryLimits = {},
): Promise<Answer> {
  const endsAt = performance.now() + forMs
  for (let delayMs = firstDelayMs; ; delayMs = Math.min(maxDelayMs, delayMs * 2)) {
    const isLast = performance.now() + delayMs > endsAt
    try {
      const answer = await ask()
      if (isLast || !busyStatuses.has(statusOf(answer))) return answer
    } catch (error) {
      if (isLast || !isUnsent(error)) throw error
    }
    await delay(delayMs)
  }
}

export function retryingCaller(caller: SignedCaller, limits: RetryLimits = {}): SignedCaller {
  return {
    call: async (principal, method, target, options) => {
      const headers = { ...repeatableHeaders(method), ...options?.headers }
      return await retryWhileBusy(
        async () => await caller.call(principal, method, target, { ...options, headers }),
        ({ status }) => status,
        limits,
      )
    },
  }
}

/** The request may have been carried out, and its response lost. */
export function repeatableHeaders(method: string): Readonly<Record<string, string>> {
  return method === 'POST' ? { 'idempotency-key': randomUUID() } : {}
}

function isUnsent(error: unknown): boolean {
  if (error instanceof NoAnswerError) return error.isUnsent
  return error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED'
}
