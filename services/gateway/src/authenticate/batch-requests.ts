interface Waiting<Answer> {
  readonly input: string
  readonly since: number
  readonly answered: PromiseWithResolvers<Answer>
}

/**
 * Batches the inputs of one turn of the event loop, with at most `maxConcurrent` batches at a time. No answer is older
 * than its request.
 */
export function createBatcher<Answer>(
  /** Answers are in the order of the inputs. A rejection rejects the whole batch. */
  sendBatch: (inputs: readonly string[]) => Promise<readonly Answer[]>,
  options: {
    readonly maxBatch: number
    readonly maxConcurrent: number
    readonly maxWaiting: number
    /** Longer waiting inputs reject and are never sent. */
    readonly maxWaitMs: number
    readonly now: () => number
  },
): (input: string) => Promise<Answer> {
  const { maxBatch, maxConcurrent, maxWaiting, maxWaitMs, now } = options
  const waiting: Waiting<Answer>[] = []
  let inProgress = 0
  let isDue = false

  async function send(batch: readonly Waiting<Answer>[]): Promise<void> {
    try {
      const answers = await sendBatch(batch.map(({ input }) => input))
      for (const [at, { answered }] of batch.entries()) {
        const answer = answers[at]
        if (answer === undefined) answered.reject(new Error('the batch has fewer answers than inputs'))
        else answered.resolve(answer)
      }
    } catch (error) {
      for (const { answered } of batch) answered.reject(error)
    } finally {
      inProgress -= 1
      sendWaiting()
    }
  }

  function rejectLate(): void {
    const lastInTime = now() - maxWaitMs
    const firstInTime = waiting.findIndex(({ since }) => since > lastInTime)
    for (const { answered } of waiting.splice(0, firstInTime === -1 ? waiting.length : firstInTime)) {
      answered.reject(new Error('the request waited too long to be sent'))
    }
  }

  function sendWaiting(): void {
    isDue = false
    rejectLate()
    while (waiting.length > 0 && inProgress < maxConcurrent) {
      inProgress += 1
      void send(waiting.splice(0, maxBatch))
    }
  }

  return async (input) => {
    if (waiting.length >= maxWaiting) rejectLate()
    if (waiting.length >= maxWaiting) throw new Error('too many requests wait to be sent')
    const answered = Promise.withResolvers<Answer>()
    waiting.push({ input, since: now(), answered })
    if (!isDue) {
      isDue = true
      setImmediate(sendWaiting)
    }
    return await answered.promise
  }
}
