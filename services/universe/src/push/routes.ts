import type { CreatedBy, PushedEntity } from '@postern/contracts'
import { type ApplyAnswer, type ApplyEntitiesAnswer, applyEntitiesBodySchema } from '@postern/contracts/internal'
import { type App, type RequestInfo, internalRoute, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { applyOnce } from '../import/apply-once.ts'
import {
  type RowFault,
  asInputErrors,
  cycleFault,
  depthFault,
  faultsOfPush,
  maxDepth,
  outsideParents,
  statusFault,
  unknownParentFault,
} from './rules.ts'
import {
  type IdentifiedEntity,
  type Tx,
  applyEntities,
  identify,
  isTreeRefusal,
  listMisplaced,
  lockTree,
} from './store.ts'

/** Larger than the limit at the gateway, because the sync service adds defaults and spacing. */
export const maxBodyBytes = 24 * 1024 * 1024

/** Applies pushed entities: all rows or none. */
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
        .write(context, async (tx) =>
          applyOnce(tx, body, entities.length, async () => apply(tx, entities, actorOf(context))),
        )
        .catch(async (error: unknown) => {
          if (!isTreeRefusal(error)) throw error
          const misplaced = await db.read(context, async (tx) => listMisplaced(tx, entities, maxDepth))
          refuse(misplaced.map(({ index, fault }) => (fault === 'cycle' ? cycleFault(index) : depthFault(index))))
          // The tree changed after the rejection, so the same push may be valid now.
          throw problem('conflict', { detail: 'The tree of entities was changed meanwhile. Push again.', cause: error })
        })
      log.info({ event: 'entities_applied', request_id: requestId, run_id, ...outcome })
      return outcome
    },
  )
}

async function apply(tx: Tx, entities: readonly PushedEntity[], createdBy: CreatedBy): Promise<ApplyEntitiesAnswer> {
  const parents = outsideParents(entities)
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
  return await applyEntities(tx, identified, lastNumber, createdBy)
}

/** Rejects a push with faults. `list` is the member of the body with the rows. */
export function refuse(faults: readonly RowFault[], list = 'entities'): void {
  if (faults.length === 0) return
  throw problem('invalid_content', {
    detail: 'The push was rejected. See `errors` for the invalid rows.',
    errors: asInputErrors(faults, list),
  })
}

/** The recorded origin of a push. */
export function actorOf({ kind, id, label }: RequestInfo['context']): CreatedBy {
  return { type: kind === 'service' ? 'connector' : kind, id, label }
}
