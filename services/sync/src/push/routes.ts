import {
  type PushResult,
  maxPushWarnings,
  pushEntities,
  pushOrgStructure,
  pushPeople,
  pushTestProcedures,
} from '@postern/contracts'
import { type App, type RequestInfo, contractRoute } from '@postern/service-kit'
import { type RowWarning, warningsOfEntity, withUsableAddress, withUsableAddresses } from '../dataset/warnings.ts'
import type { Deps } from '../deps.ts'
import { actorOf } from '../run/actor.ts'
import { interruptedAfterSeconds } from '../run/rules.ts'
import { touchInlineConnector } from './connector-store.ts'
import { importCallerOf } from './import-caller.ts'
import { notRecorded, problemOf } from './refusal.ts'
import { canBeApplied, runOutcomeOf } from './rules.ts'
import { failInterruptedRuns, finishRun, startInlineRun } from './run-store.ts'
import type { ApplicationOutcome, Dataset } from './universe.ts'

export function pushRoutes(app: App, deps: Pick<Deps, 'db' | 'universe'>): void {
  contractRoute(app, pushEntities, async (input) => {
    const { rows, warnings } = cleanRows(input.body)
    const application = { rows: rows.length, body: { entities: rows } }
    const result = await pushRows(deps, input, { dataset: 'auditable_entities', ...application })
    return withWarnings(
      result,
      rows.map((row, index) => [...(warnings[index] ?? []), ...warningsOfEntity(row)]),
    )
  })

  contractRoute(app, pushOrgStructure, async (input) => {
    const { body, params } = input
    const { rows: nodes, warnings } = cleanRows(body.nodes)
    const application = { rows: nodes.length, body: { key: params.key, ...body, nodes } }
    return withWarnings(await pushRows(deps, input, { dataset: 'org_structure', ...application }), warnings, '/nodes')
  })

  contractRoute(app, pushTestProcedures, async (input) => {
    const { rows, warnings } = cleanRows(input.body)
    const application = { rows: rows.length, body: { test_procedures: rows } }
    return withWarnings(await pushRows(deps, input, { dataset: 'test_procedures', ...application }), warnings)
  })

  contractRoute(app, pushPeople, async (input) => {
    const cleaned = input.body.map(withUsableAddress)
    const people = cleaned.map(({ person }) => person)
    const result = await pushRows(deps, input, { dataset: 'people', rows: people.length, body: { people } })
    return withWarnings(
      result,
      cleaned.map(({ warnings }) => warnings),
    )
  })
}

function cleanRows(rows: readonly Readonly<Record<string, unknown>>[]) {
  const cleaned = rows.map(withUsableAddresses)
  return { rows: cleaned.map(({ row }) => row), warnings: cleaned.map(({ warnings }) => warnings) }
}

function withWarnings(result: PushResult, warnings: readonly (readonly RowWarning[])[], at = ''): PushResult {
  const found = warnings.flatMap((ofRow, index) =>
    ofRow.map(({ field, code, message }) => ({
      pointer: `${at}/${index}/${field.replaceAll('.', '/')}`,
      code,
      detail: message,
    })),
  )
  return found.length === 0 ? result : { ...result, warnings: found.slice(0, maxPushWarnings) }
}

interface Push {
  readonly dataset: Dataset
  readonly rows: number
  /** What the universe is sent, except for the run's id. */
  readonly body: object
}

async function pushRows(
  { db, universe }: Pick<Deps, 'db' | 'universe'>,
  { context, requestId, log }: RequestInfo,
  { dataset, rows, body }: Push,
): Promise<PushResult> {
  // A separate transaction, so that the attempt is recorded whatever happens next.
  const { runId, connectorId, interrupted } = await db.write(context, async (tx) => {
    const ended = await failInterruptedRuns(tx, interruptedAfterSeconds)
    const inline = await touchInlineConnector(tx, dataset)
    const run = { connectorId: inline, fetched: rows, actor: actorOf(context), requestId }
    return { runId: await startInlineRun(tx, run), connectorId: inline, interrupted: ended }
  })
  if (interrupted > 0) log.warn({ event: 'runs_interrupted', request_id: requestId, runs: interrupted })
  const caller = importCallerOf({ context, requestId }, runId, connectorId)
  const outcome = await universe.apply({ ...caller, dataset, body })
  try {
    await db.write(context, async (tx) => await finishRun(tx, runId, runOutcomeOf(outcome, rows)))
  } catch (error) {
    throw canBeApplied(outcome) ? notRecorded(error) : error
  }
  return answerOf(runId, rows, outcome)
}

function answerOf(runId: string, fetched: number, outcome: ApplicationOutcome): PushResult {
  if (outcome.kind !== 'applied') throw problemOf(outcome)
  return { run_id: runId, status: 'succeeded', counts: { fetched, ...outcome.counts } }
}
