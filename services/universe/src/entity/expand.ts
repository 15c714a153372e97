import type { Entity, EntityExpansion, ExpandedEntity, FindingCounts } from '@postern/contracts'
import type { RequestInfo } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { listAncestorsOf, listNodesOf } from './expand-store.ts'

export type Parts = Pick<ExpandedEntity, 'ancestors' | 'nodes' | 'open_findings' | 'archived_with_open_findings'>

const none = { critical: 0, high: 0, medium: 0, low: 0 }

/** Reads the expansions that the caller may see, with at most `most` nodes each. */
export async function expand(
  { db, findings }: Pick<Deps, 'db' | 'findings'>,
  request: Pick<RequestInfo, 'context' | 'requestId'>,
  entities: readonly Pick<Entity, 'id' | 'status'>[],
  { wanted, most }: { readonly wanted: readonly EntityExpansion[]; readonly most: number },
): Promise<ReadonlyMap<string, Parts>> {
  const ids = entities.map(({ id }) => id)
  const wants = new Set(wanted)
  const isStored = wants.has('ancestors') || wants.has('nodes')
  const maySeeFindings = request.context.scopes.includes('read:findings')
  const [[above, nodes], counts] = await Promise.all([
    ids.length === 0 || !isStored
      ? []
      : db.read(request.context, async (tx) =>
          Promise.all([
            wants.has('ancestors') ? listAncestorsOf(tx, ids) : undefined,
            wants.has('nodes') ? listNodesOf(tx, ids, most) : undefined,
          ]),
        ),
    wants.has('finding_counts') && maySeeFindings ? findings.openCounts(request, ids) : undefined,
  ])
  const [aboveOf, nodesOf] = [
    Map.groupBy(above ?? [], ({ entity_id }) => entity_id),
    Map.groupBy(nodes ?? [], ({ entity_id }) => entity_id),
  ]
  const partsOf = ({ id, status }: Pick<Entity, 'id' | 'status'>): Parts => ({
    ...(wants.has('ancestors') ? { ancestors: (aboveOf.get(id) ?? []).map(withoutEntity) } : {}),
    ...(wants.has('nodes') ? { nodes: (nodesOf.get(id) ?? []).map(withoutEntity) } : {}),
    ...(counts === undefined ? {} : findingsOf(status, counts.get(id) ?? none)),
  })
  return new Map(entities.map((entity) => [entity.id, partsOf(entity)]))
}

function findingsOf(status: Entity['status'], counts: FindingCounts): Parts {
  const isOpen = Object.values(counts).some((count) => count > 0)
  return { open_findings: counts, archived_with_open_findings: status === 'archived' && isOpen }
}

function withoutEntity<Row extends { readonly entity_id: string }>({ entity_id: _id, ...rest }: Row) {
  return rest
}
