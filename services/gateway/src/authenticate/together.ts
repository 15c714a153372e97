interface Waiting<Answer> {
  readonly input: string
  readonly since: number
  readonly answered: PromiseWithResolvers<Answer>
}

/**
 * Gathers questions into fewer, larger ones: those of one turn of the event loop are asked together, and while `atOnce` are
 * under way the next ones wait for each other. Every question is asked after it was put, so that its answer is never older.
 * `ask` answers up to `most` inputs in their order; when it rejects, so do all that it was asked. A question is refused
 * where `mostWaiting` wait already, and never asked when it has waited for `withinMs`: nobody wants its answer any more.
 */
export function together<Answer>(
  ask: (inputs: readonly string[]) => Promise<readonly Answer[]>,
  options: {
    readonly most: number
    readonly atOnce: number
    readonly mostWaiting: number
    readonly withinMs: number
    /** Milliseconds on a clock that never goes back. */
    readonly now: () => number
  },
): (input: string) => Promise<Answer> {
  const { most, atOnce, mostWaiting, withinMs, now } = options
  const waiting: Waiting<Answer>[] = []
  let underWay = 0
  let isDue = false

  async function send(some: readonly Waiting<Answer>[]): Promise<void> {
    try {
      const answers = await ask(some.map(({ input }) => input))
      for (const [at, { answered }] of some.entries()) {
        const answer = answers[at]
        if (answer === undefined) answered.reject(new Error('fewer answers than questions'))
        else answered.resolve(answer)
      }
    } catch (error) {
      for (const { answered } of some) answered.reject(error)
    } finally {
      underWay -= 1
      sendWaiting()
    }
  }

  function refuseLate(): void {
    const lastInTime = now() - withinMs
    const inTime = waiting.findIndex(({ since }) => since > lastInTime)
    for (const { answered } of waiting.splice(0, inTime === -1 ? waiting.length : inTime)) {
      answered.reject(new Error('waited too long to be asked'))
    }
  }

  function sendWaiting(): void {
    isDue = false
    refuseLate()
    while (waiting.length > 0 && underWay < atOnce) {
      underWay += 1
      void send(waiting.splice(0, most))
    }
  }

  return async (input) => {
    if (waiting.length >= mostWaiting) refuseLate()
    if (waiting.length >= mostWaiting) throw new Error('too many wait to be asked')
    const answered = Promise.withResolvers<Answer>()
    waiting.push({ input, since: now(), answered })
    if (!isDue) {
      isDue = true
      setImmediate(sendWaiting)
    }
    return await answered.promise
  }
}
