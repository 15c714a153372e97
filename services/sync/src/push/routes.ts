import { type PushResult, pushEntities } from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, problem } from '@postern/service-kit'
import { touchInlineConnector } from '../connector/store.ts'
import type { Deps } from '../deps.ts'
import { type Actor, interruptedAfterSeconds } from '../run/rules.ts'
import { failInterruptedRuns, finishRun, startInlineRun } from '../run/store.ts'
import { runOutcomeOf } from './rules.ts'
import type { ApplicationOutcome } from './universe.ts'

/** Takes pushes of auditable entities and has the universe apply them, each recorded as a run. */
export function pushRoutes(app: App, { db, universe }: Pick<Deps, 'db' | 'universe'>): void {
  contractRoute(app, pushEntities, async ({ body, context, requestId, log }) => {
    // Its own transaction: whatever happens from here on, that it was tried is on record.
    const { runId, interrupted } = await db.write(context, async (tx) => {
      const ended = await failInterruptedRuns(tx, interruptedAfterSeconds)
      const connectorId = await touchInlineConnector(tx)
      const id = await startInlineRun(tx, { connectorId, fetched: body.length, actor: actorOf(context), requestId })
      return { runId: id, interrupted: ended }
    })
    if (interrupted > 0) log.warn({ event: 'runs_interrupted', request_id: requestId, runs: interrupted })
    const { tenantId, assertion, label } = context
    const outcome = await universe.apply({ tenantId, assertion, runId, label, requestId, entities: body })
    await db.write(context, async (tx) => await finishRun(tx, runId, runOutcomeOf(outcome)))
    return answerOf(runId, body.length, outcome)
  })
}

/** The answer to a push that was applied; for every other outcome it throws the problem. */
function answerOf(runId: string, fetched: number, outcome: ApplicationOutcome): PushResult {
  switch (outcome.kind) {
    case 'applied':
      return { run_id: runId, status: 'succeeded', counts: { fetched, ...outcome.counts } }
    case 'refused':
      throw problem('invalid_content', {
        detail: outcome.detail ?? 'Rows of the push are not valid. None was applied.',
        errors: outcome.errors,
      })
    case 'conflict':
      throw problem('conflict', { detail: outcome.detail })
    case 'too_large':
      throw problem('content_too_large', { detail: 'The push is too large. Send it in parts.' })
    case 'unreachable':
      throw problem('service_unavailable', {
        detail: 'The universe cannot be reached. No row was applied; push again later.',
        retryAfterSeconds: 5,
        cause: outcome.cause,
      })
    case 'unavailable':
      throw problem('service_unavailable', {
        detail:
          'The universe cannot apply the push now. Push the same rows again: that is harmless if they were applied.',
        retryAfterSeconds: 5,
      })
    case 'unknown':
      throw problem(outcome.timedOut ? 'gateway_timeout' : 'bad_gateway', {
        detail: 'Whether the rows were applied is not known. Push the same rows again: that is harmless if they were.',
        cause: outcome.cause,
      })
    case 'unexpected':
      throw problem('bad_gateway', {
        detail: 'The universe gave an answer that is none. Push the same rows again.',
        cause: new Error(`the universe answered ${outcome.status} to a push`),
      })
    default:
      return outcome satisfies never
  }
}

function actorOf({ kind, id, label }: RequestInfo['context']): Actor {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}
