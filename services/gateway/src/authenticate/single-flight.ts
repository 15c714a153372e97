import { runAfterPendingReads } from '@postern/service-kit'
import { lookupTimeoutMs } from './keys-client.ts'
import type { Timers } from './lease.ts'

/** Requests for the same name share a look-up. */
export interface SingleFlight<Answer> {
  /**
   * Returns the answer in progress, or starts one. For use under a lease, whose watermarks overrule outdated answers.
   */
  share(name: string): Promise<Answer>
  /** Returns the answer of a look-up that begins after this call: without a lease, an earlier one proves nothing. */
  shareNext(name: string): Promise<Answer>
}

interface Flight<Answer> {
  readonly answer: Promise<Answer>
  next: Promise<Answer> | undefined
}

/** `lookUp` must not reject if the answer is unavailable. */
export function createSingleFlight<Answer>(lookUp: (name: string) => Promise<Answer>): SingleFlight<Answer> {
  const inProgress = new Map<string, Flight<Answer>>()

  function start(name: string): Flight<Answer> {
    const flight: Flight<Answer> = {
      // The next look-up of the name begins after this one.
      answer: lookUp(name).finally(() => inProgress.delete(name)),
      next: undefined,
    }
    inProgress.set(name, flight)
    return flight
  }

  async function share(name: string): Promise<Answer> {
    return await (inProgress.get(name) ?? start(name)).answer
  }

  return {
    share,
    shareNext: async (name) => {
      const flight = inProgress.get(name)
      if (flight === undefined) return await start(name).answer
      flight.next ??= flight.answer.then(async () => await share(name))
      return await flight.next
    },
  }
}

/** Resolves with `late` after `lookupTimeoutMs`, because a look-up may wait in a queue or be repeated. */
export async function withDeadline<Answer>(answer: Promise<Answer>, late: Answer, timers: Timers): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const cancel = timers.after(lookupTimeoutMs, () => runAfterPendingReads(() => resolve(late)))
  answer.then(resolve, reject)
  try {
    return await promise
  } finally {
    cancel()
  }
}
