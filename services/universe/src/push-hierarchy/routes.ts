import type { CreatedBy } from '@postern/contracts'
import {
  type ApplyAnswer,
  type ApplyHierarchyBody,
  applyHierarchyBodySchema,
  internalPaths,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { applyPushedPeople } from '../push-people/routes.ts'
import { faultsOfPeople } from '../push-people/rules.ts'
import { refuse } from '../push/rejection.ts'
import { actorOf, maxBodyBytes } from '../push/routes.ts'
import { faultsOfNodes, nodeCycleFault, nodeDepthFault, unknownEntityFault, unknownParentKeyFault } from './rules.ts'
import { type Tx, applyNodes, listOrphans, listUnknownEntities, openHierarchy, stageNodes } from './store.ts'

export function pushHierarchyRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.pushOrgStructures,
      body: applyHierarchyBodySchema,
      maxBodyBytes,
      signedBy: ['sync-universe'],
      callers: ['service'],
    },
    async ({ body, context, requestId, log }): Promise<ApplyAnswer> => {
      const { nodes, people = [] } = body
      refuse(faultsOfPeople(people), 'people')
      refuse(faultsOfNodes(nodes), 'nodes')
      const outcome = await db.write(context, async (tx) => {
        const { created, updated, unchanged } = await applyPushedPeople(tx, people)
        const rest = await applyHierarchy(tx, body, actorOf(context))
        return {
          ...rest,
          created: created + rest.created,
          updated: updated + rest.updated,
          unchanged: unchanged + rest.unchanged,
        }
      })
      log.info({ event: 'hierarchy_applied', request_id: requestId, run_id: body.run_id, ...outcome })
      return outcome
    },
  )
}

export async function applyHierarchy(tx: Tx, body: ApplyHierarchyBody, createdBy: CreatedBy): Promise<ApplyAnswer> {
  const hierarchy = await openHierarchy(tx, body, createdBy)
  await stageNodes(tx, hierarchy, body.nodes)
  const [orphans, unknown] = await Promise.all([listOrphans(tx, hierarchy), listUnknownEntities(tx, hierarchy)])
  refuse(
    [
      ...orphans.map((index) => unknownParentKeyFault(index, body.mode)),
      ...unknown.map(({ index, place }) => unknownEntityFault(index, place)),
    ],
    'nodes',
  )
  const { misplaced, ...counts } = await applyNodes(tx, hierarchy, body.nodes.length)
  refuse(
    misplaced.map(({ index, fault }) => (fault === 'cycle' ? nodeCycleFault(index) : nodeDepthFault(index))),
    'nodes',
  )
  return { ...counts, unchanged: body.nodes.length - counts.created - counts.updated }
}
