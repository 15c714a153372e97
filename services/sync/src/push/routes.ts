import { type PushResult, pushEntities, pushOrgStructure, pushPeople, pushTestProcedures } from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, problem } from '@postern/service-kit'
import { touchInlineConnector } from '../connector/store.ts'
import type { Deps } from '../deps.ts'
import { actorOf } from '../run/actor.ts'
import { interruptedAfterSeconds } from '../run/rules.ts'
import { failInterruptedRuns, finishRun, startInlineRun } from '../run/store.ts'
import { runOutcomeOf } from './rules.ts'
import type { ApplicationOutcome, Dataset } from './universe.ts'

/** Takes pushes and has the universe apply them, each recorded as a run. */
export function pushRoutes(app: App, deps: Pick<Deps, 'db' | 'universe'>): void {
  contractRoute(app, pushEntities, async (input) => {
    const { body } = input
    return await push(deps, input, { dataset: 'auditable_entities', rows: body.length, body: { entities: body } })
  })

  contractRoute(app, pushOrgStructure, async (input) => {
    const { body, params } = input
    const application = { rows: body.nodes.length, body: { key: params.key, ...body } }
    return await push(deps, input, { dataset: 'org_structure', ...application })
  })

  contractRoute(app, pushTestProcedures, async (input) => {
    const { body } = input
    return await push(deps, input, { dataset: 'test_procedures', rows: body.length, body: { test_procedures: body } })
  })

  contractRoute(app, pushPeople, async (input) => {
    const { body } = input
    return await push(deps, input, { dataset: 'people', rows: body.length, body: { people: body } })
  })
}

interface Push {
  readonly dataset: Dataset
  readonly rows: number
  /** What the universe is sent, but for the run's id. */
  readonly body: object
}

async function push(
  { db, universe }: Pick<Deps, 'db' | 'universe'>,
  { context, requestId, log }: RequestInfo,
  { dataset, rows, body }: Push,
): Promise<PushResult> {
  // Its own transaction: whatever happens from here on, that it was tried is on record.
  const { runId, interrupted } = await db.write(context, async (tx) => {
    const ended = await failInterruptedRuns(tx, interruptedAfterSeconds)
    const connectorId = await touchInlineConnector(tx, dataset)
    const id = await startInlineRun(tx, { connectorId, fetched: rows, actor: actorOf(context), requestId })
    return { runId: id, interrupted: ended }
  })
  if (interrupted > 0) log.warn({ event: 'runs_interrupted', request_id: requestId, runs: interrupted })
  const { tenantId, assertion, label } = context
  const outcome = await universe.apply({ tenantId, assertion, runId, label, requestId, dataset, body })
  await db.write(context, async (tx) => await finishRun(tx, runId, runOutcomeOf(outcome)))
  return answerOf(runId, rows, outcome)
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
