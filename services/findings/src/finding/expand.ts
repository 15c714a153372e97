import type { ExpandedFinding, Expansion, Finding } from '@postern/contracts'
import type { EntityNamesAnswer } from '@postern/contracts/internal'
import { type RequestInfo, isTooLarge, problem } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { planAsRead } from '../action-plan/rules.ts'
import { listFirstPlans } from '../action-plan/store.ts'
import { listFirstRecommendations } from '../recommendation/store.ts'
import type { LogSealer } from '../tracker-log/sealer.ts'
import { listLastEntries } from '../tracker-log/store.ts'
import type { Universe } from '../universe/universe.ts'
import type { CalendarDate } from './rules.ts'

const nameBatch = 1000

export type Parts = Pick<ExpandedFinding, 'recommendations' | 'action_plans' | 'log' | 'entities'>

export async function expand(
  {
    db,
    universe,
    sealer,
  }: {
    readonly db: Pick<TenantDb, 'read'>
    readonly universe: Universe
    readonly sealer: Pick<LogSealer, 'settle'>
  },
  request: Pick<RequestInfo, 'context' | 'requestId'>,
  findings: readonly Pick<Finding, 'id' | 'entity_ids'>[],
  {
    wanted,
    today,
    limit,
  }: { readonly wanted: readonly Expansion[]; readonly today: CalendarDate; readonly limit: number },
): Promise<ReadonlyMap<string, Parts>> {
  const wants = new Set(wanted)
  const ids = findings.map(({ id }) => id)
  if (wants.has('log')) await sealer.settle(request.context)
  const [[recommendations, plans, log], entities] = await Promise.all([
    ids.length === 0 || !wanted.some((part) => part !== 'entities')
      ? []
      : db
          .read(request.context, async (tx) =>
            Promise.all([
              wants.has('recommendations') ? listFirstRecommendations(tx, ids, limit) : undefined,
              wants.has('action_plans') ? listFirstPlans(tx, ids, limit) : undefined,
              wants.has('log') ? listLastEntries(tx, ids, limit) : undefined,
            ]),
          )
          .catch((error: unknown) => {
            // With several findings, the caller can ask for a shorter page.
            throw isTooLarge(error) && ids.length === 1 ? tooLargeToExpandProblem(error) : error
          }),
    wants.has('entities') ? namesOf(universe, request, findings) : undefined,
  ])
  const [recommendationsOf, plansOf, logOf] = [
    Map.groupBy(recommendations ?? [], ({ finding_id }) => finding_id),
    Map.groupBy(plans ?? [], ({ finding_id }) => finding_id),
    Map.groupBy(log ?? [], ({ finding_id }) => finding_id),
  ]
  const partsOf = ({ id, entity_ids }: Pick<Finding, 'id' | 'entity_ids'>): Parts => ({
    ...(wants.has('recommendations') ? { recommendations: recommendationsOf.get(id) ?? [] } : {}),
    ...(wants.has('action_plans')
      ? { action_plans: (plansOf.get(id) ?? []).map((plan) => planAsRead(plan, today)) }
      : {}),
    ...(wants.has('log') ? { log: logOf.get(id) ?? [] } : {}),
    ...(entities === undefined ? {} : { entities: visibleEntities(entities, entity_ids, request.context) }),
  })
  return new Map(findings.map((finding) => [finding.id, partsOf(finding)]))
}

function tooLargeToExpandProblem(cause: unknown): Error {
  return problem('bad_request', {
    detail: 'The expanded parts are too large for one response. Read them from their own lists.',
    errors: [{ parameter: 'expand', code: 'too_big', detail: 'is too large for one response' }],
    cause,
  })
}

type NamedEntity = EntityNamesAnswer['entities'][number]

async function namesOf(
  universe: Universe,
  request: Pick<RequestInfo, 'context' | 'requestId'>,
  findings: readonly Pick<Finding, 'entity_ids'>[],
): Promise<ReadonlyMap<string, NamedEntity>> {
  const ids = [...new Set(findings.flatMap(({ entity_ids }) => entity_ids))]
  const named = new Map<string, NamedEntity>()
  for (let from = 0; from < ids.length; from += nameBatch) {
    const some = await universe.names(request, ids.slice(from, from + nameBatch))
    for (const entity of some) named.set(entity.id, entity)
  }
  return named
}

function visibleEntities(
  entities: ReadonlyMap<string, NamedEntity>,
  ids: readonly string[],
  { scopes }: RequestInfo['context'],
): NonNullable<Parts['entities']> {
  const sorted = ids.flatMap((id) => entities.get(id) ?? []).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return scopes.includes('read:universe') ? sorted : sorted.map(({ id, name }) => ({ id, name }))
}
