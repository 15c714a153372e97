import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Counter, type Registry } from '@prometheus-io/client'
import { type ProblemOptions, problem } from './problem.ts'

export interface Pressure {
  /** HOT PATH: read for every request, set by a timer. */
  readonly isLate: boolean
  refused(): void
  close(): void
}

const everyMs = 250
/** One late timer is only a pause. */
const lateInARow = 2

/** The request was not executed. */
export const tooBusy: ProblemOptions = {
  detail: 'The request had no effect. Try again in a moment.',
  retryAfterSeconds: 1,
}

/** Two delays above `maxDelayMs` in a row mean overload. 0: never. */
export function watchEventLoop({ maxDelayMs, metrics }: { maxDelayMs: number; metrics: Registry }): Pressure {
  const refusals = new Counter({
    name: 'postern_overload_refusals_total',
    help: 'Requests that were refused because the event loop was late',
    registers: [metrics],
  })
  const pressure = {
    isLate: false,
    refused: () => refusals.inc(),
    close: () => clearInterval(timer),
  }
  if (maxDelayMs === 0) return { ...pressure, close: () => undefined }
  let last = performance.now()
  let late = 0
  const timer = setInterval(() => {
    const now = performance.now()
    late = now - last - everyMs > maxDelayMs ? late + 1 : 0
    last = now
    pressure.isLate = late >= lateInARow
  }, everyMs)
  timer.unref()
  return pressure
}

export function refuseWhenLate(
  app: FastifyInstance,
  pressure: Pressure,
  isRefusable: (request: FastifyRequest) => boolean,
): void {
  app.addHook('onRequest', (request, _reply, done) => {
    if (!pressure.isLate || !isRefusable(request)) {
      done()
      return
    }
    pressure.refused()
    done(problem('overloaded', tooBusy))
  })
}
