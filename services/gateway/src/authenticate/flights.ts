import { lookupTimeoutMs } from './keys-client.ts'
import type { Timers } from './lease.ts'

/** Look-ups under way, each shared by those whom it may answer. */
export interface Flights<Answer> {
  /** Under a lease a flight may be joined: whatever it read, the floors overrule it at the moment of the decision. */
  join(name: string): Promise<Answer>
  /**
   * Without a lease nothing tells us of revocations, so only a look-up that began after the request arrived may answer
   * it. Those who wait for the same flight to end share the next one.
   */
  joinLater(name: string): Promise<Answer>
}

interface Flight<Answer> {
  readonly answer: Promise<Answer>
  /** The look-up that begins when this one ends, for those who may not join it. */
  next: Promise<Answer> | undefined
}

/** Starts with none. `ask` looks one up, and never rejects for want of an answer. */
export function createFlights<Answer>(ask: (name: string) => Promise<Answer>): Flights<Answer> {
  const flights = new Map<string, Flight<Answer>>()

  function fly(name: string): Flight<Answer> {
    const flight: Flight<Answer> = {
      // No other begins before it has ended.
      answer: ask(name).finally(() => flights.delete(name)),
      next: undefined,
    }
    flights.set(name, flight)
    return flight
  }

  async function join(name: string): Promise<Answer> {
    return await (flights.get(name) ?? fly(name)).answer
  }

  return {
    join,
    joinLater: async (name) => {
      const flight = flights.get(name)
      if (flight === undefined) return await fly(name).answer
      flight.next ??= flight.answer.then(async () => await join(name))
      return await flight.next
    },
  }
}

/**
 * The answer, or `late` when it has not come in the time that a request waits. A flight may wait for its turn, be made again or come
 * after another one: those who wait for it are bounded here.
 */
export async function inTime<Answer>(answer: Promise<Answer>, late: Answer, timers: Timers): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const callOff = timers.after(lookupTimeoutMs, () => resolve(late))
  answer.then(resolve, reject)
  try {
    return await promise
  } finally {
    callOff()
  }
}
