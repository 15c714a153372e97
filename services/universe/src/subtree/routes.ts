import { parseResourceAddress } from '@postern/contracts'
import {
  type EntityNamesAnswer,
  type SubtreeAnswer,
  entityNamesBodySchema,
  internalPaths,
  maxSubtreeEntities,
  subtreeBodySchema,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { parseNodeAddress } from '../hierarchy/rules.ts'
import { listEntityIdsBelow, listEntityIdsInHierarchy, listNames } from './store.ts'

export function subtreeRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  const access = { method: 'POST', signedBy: ['findings-universe'], callers: ['service'] } as const

  internalRoute(
    app,
    { ...access, path: internalPaths.subtree, body: subtreeBodySchema },
    async ({ body, context }): Promise<SubtreeAnswer> => {
      const limit = maxSubtreeEntities + 1
      const ids = await db.read(context, async (tx) => {
        if (!('hierarchy' in body)) return await listEntityIdsBelow(tx, parseResourceAddress(body.subtree_of), limit)
        const top = body.subtree_of === undefined ? undefined : parseNodeAddress(body.subtree_of)
        return await listEntityIdsInHierarchy(tx, body.hierarchy, top, limit)
      })
      return { entity_ids: ids.length === limit ? null : ids }
    },
  )

  internalRoute(
    app,
    { ...access, path: internalPaths.entityNames, body: entityNamesBodySchema },
    async ({ body: { ids }, context }): Promise<EntityNamesAnswer> => ({
      entities: await db.read(context, async (tx) => listNames(tx, ids)),
    }),
  )
}
