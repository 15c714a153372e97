import type { CreatedBy, PushedTestProcedure } from '@postern/contracts'
import {
  type ApplyAnswer,
  type ApplyEntitiesAnswer,
  applyTestProceduresBodySchema,
  internalPaths,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { refuse } from '../push/rejection.ts'
import { actorOf, maxBodyBytes } from '../push/routes.ts'
import {
  faultsOfTestProcedures,
  findNamedInTwoWays,
  ownReviewFault,
  procedureStatusFault,
  unknownEntityFault,
} from './rules.ts'
import {
  type Tx,
  listOwnReviews,
  listStatuses,
  listUnknownEntities,
  lockTestProcedures,
  writeTestProcedures,
} from './store.ts'

export function pushTestProcedureRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.pushTestProcedures,
      body: applyTestProceduresBodySchema,
      maxBodyBytes,
      signedBy: ['sync-universe'],
      callers: ['service'],
    },
    async ({ body, context, requestId, log }): Promise<ApplyAnswer> => {
      const { test_procedures: rows, run_id } = body
      refuse(faultsOfTestProcedures(rows), 'test_procedures')
      const outcome = await db.write(context, async (tx) => applyTestProcedures(tx, rows, actorOf(context)))
      log.info({ event: 'test_procedures_applied', request_id: requestId, run_id, ...outcome })
      return outcome
    },
  )
}

export async function applyTestProcedures(
  tx: Tx,
  rows: readonly PushedTestProcedure[],
  createdBy: CreatedBy,
): Promise<ApplyEntitiesAnswer> {
  const keys = rows.map(({ external_id }) => external_id)
  const [, unknown, statuses, own] = await Promise.all([
    lockTestProcedures(tx),
    listUnknownEntities(tx, rows),
    listStatuses(tx, keys),
    listOwnReviews(tx, findNamedInTwoWays(rows)),
  ])
  const stuck = rows.flatMap(({ external_id, status }, index) => {
    const fault = procedureStatusFault(index, statuses.get(external_id) ?? status, status)
    return fault === undefined ? [] : [fault]
  })
  const faults = [
    ...unknown.map(({ index, place }) => unknownEntityFault(index, place)),
    ...stuck,
    ...own.map(ownReviewFault),
  ]
  refuse(faults, 'test_procedures')
  return await writeTestProcedures(tx, rows, createdBy)
}
