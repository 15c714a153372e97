import type { CreatedBy, PushedEntity } from '@postern/contracts'
import { type ApplyAnswer, type ApplyEntitiesAnswer, applyEntitiesBodySchema } from '@postern/contracts/internal'
import { type App, type RequestInfo, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { refuse } from './rejection.ts'
import { type RowFault, faultsOfPush, groupByOutsideParent, statusFault, unknownParentFault } from './rules.ts'
import { type IdentifiedEntity, type Tx, applyIdentified, identify, lockTree } from './store.ts'
import { asProblem } from './tree-refusal.ts'

/** More than at the gateway, because sync adds defaults and spacing. */
export const maxBodyBytes = 24 * 1024 * 1024

export function pushRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: '/internal/v1/entities',
      body: applyEntitiesBodySchema,
      maxBodyBytes,
      signedBy: ['sync-universe'],
      callers: ['service'],
      isOurJson: true,
    },
    async ({ body, context, requestId, log }): Promise<ApplyAnswer> => {
      const { entities, run_id } = body
      refuse(faultsOfPush(entities))
      const outcome = await db
        .write(context, async (tx) => applyEntities(tx, entities, actorOf(context)))
        .catch(async (error: unknown) => {
          throw await asProblem(db, context, error, () => entities)
        })
      log.info({ event: 'entities_applied', request_id: requestId, run_id, ...outcome })
      return outcome
    },
  )
}

/** Throws a problem for rejected rows. */
export async function applyEntities(
  tx: Tx,
  entities: readonly PushedEntity[],
  createdBy: CreatedBy,
): Promise<ApplyEntitiesAnswer> {
  const parents = groupByOutsideParent(entities)
  const keys = [...entities.map(({ external_id }) => external_id), ...parents.keys()]
  const [lastNumber, identities] = await Promise.all([lockTree(tx), identify(tx, keys)])
  const identityOf = new Map(keys.map((key, at) => [key, identities[at]]))
  const orphans = [...parents].flatMap(([key, rows]) =>
    identityOf.get(key)?.status === undefined ? rows.map(unknownParentFault) : [],
  )
  const identified: IdentifiedEntity[] = []
  const stuck: RowFault[] = []
  for (const [index, entity] of entities.entries()) {
    const { external_id, parent_external_id: parent, status } = entity
    const identity = identityOf.get(external_id)
    if (identity === undefined) throw new Error('each key was looked up')
    const fault = statusFault(index, identity.status ?? status, status)
    if (fault !== undefined) stuck.push(fault)
    identified.push({ entity, identity, parentId: parent === undefined ? undefined : identityOf.get(parent)?.id })
  }
  refuse([...orphans, ...stuck])
  return await applyIdentified(tx, identified, lastNumber, createdBy)
}

export function actorOf({ kind, id, label }: RequestInfo['context']): CreatedBy {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}
