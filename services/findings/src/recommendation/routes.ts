import {
  type ResourceAddress,
  type Recommendation,
  createRecommendation,
  getRecommendation,
  listRecommendations as listRoute,
  listRecommendationsOfFinding,
  parseResourceAddress,
  updateRecommendation as updateRoute,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  type PageStart,
  contractRoute,
  patchRoute,
  problem,
  storedList,
} from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { findFeedMark, findUpdatedSince } from '../updated-since/store.ts'
import type { Deps } from '../deps.ts'
import { getFindingId } from '../finding/get-finding-id.ts'
import { lockFinding } from '../finding/store.ts'
import {
  actorOf,
  assertVersion,
  currentOf,
  entityTag,
  invalidContent,
  mayRead,
  problemOfTakenId,
  requireIfMatch,
} from '../request.ts'
import type { Key } from '../keyset.ts'
import { createRecorder } from '../tracker-log/record.ts'
import { changesBetween, draftsOf, initialChanges } from '../tracker-log/rules.ts'
import { deriveRecommendationStatuses } from './derive.ts'
import {
  allowedMoves,
  applyRecommendationPatch,
  priorityBySeverity,
  recommendationFaults,
  recommendationFields,
  recommendationStub,
} from './rules.ts'
import {
  countRecommendations,
  findRecommendation,
  insertRecommendation,
  listRecommendationProgress,
  listRecommendations,
  recommendationList,
  updateRecommendation,
} from './store.ts'
import { brokenConstraint } from '../sql/store.ts'

export function recommendationRoutes(
  app: App,
  { db, now, checkpoints }: Pick<Deps, 'db' | 'now' | 'checkpoints'>,
): void {
  const today = (): string => now().toISOString().slice(0, 10)
  const showWritten = (
    input: Pick<ContractInput<typeof updateRoute>, 'context' | 'answer'>,
    stored: Recommendation,
  ) => {
    input.answer.etag(entityTag(stored.version, today()))
    return mayRead(input.context) ? stored : recommendationStub(stored)
  }

  const list = async (
    findings: readonly ResourceAddress[] | undefined,
    input: { readonly query: ListQuery } & Pick<ContractInput<typeof listRoute>, 'context'>,
  ) => listOf(findings, input.query, await findUpdatedSince(db, input))

  const recommendations = {
    source: db,
    exportBatch: 250,
    mark: findFeedMark,
    key: ({ query }: { readonly query: ListQuery }) => recommendationList.keySchema(query.sort),
    list: async (tx: Tx, { filter, sort }: List, place: PageStart<Key>) =>
      await listRecommendations(tx, filter, { sort, ...place }),
    count: async (tx: Tx, { filter }: List) => await countRecommendations(tx, filter),
    keyOf: (row: Recommendation, { sort }: List) => recommendationList.keyOf(row, sort),
    show: (row: Recommendation) => row,
  }
  storedList(app, listRoute, {
    ...recommendations,
    asked: async (input) => await list(input.query.finding_id?.map(parseResourceAddress), input),
  })
  storedList(app, listRecommendationsOfFinding, {
    ...recommendations,
    asked: async (input) => await list([{ by: 'id', id: await getFindingId(db, input) }], input),
  })

  contractRoute(app, getRecommendation, async ({ params, context, answer }) => {
    const address = parseResourceAddress(params.id)
    const stored = await db.read(context, async (tx) => findRecommendation(tx, address))
    if (stored === undefined) throw problem('not_found')
    answer.etag(entityTag(stored.version, today()))
    return stored
  })

  contractRoute(app, createRecommendation, async (input) => {
    const { params, body, context, answer } = input
    const address = parseResourceAddress(params.id)
    const record = createRecorder(context, checkpoints)
    return await db
      .write(context, async (tx) => {
        const finding = await lockFinding(tx, address)
        if (finding === undefined) throw problem('not_found')
        if (finding.status === 'cancelled')
          throw problem('conflict', { detail: 'The finding is cancelled, so nothing can be added to it.' })
        const priority = body.priority ?? priorityBySeverity[finding.severity]
        const made = await insertRecommendation(tx, finding.id, { ...body, priority }, actorOf(context))
        const changes = initialChanges(made, ['text', 'priority'])
        await record(tx, [{ findingId: finding.id, recommendationId: made.id, kind: 'created', changes }])
        answer.header('location', `/api/v1/recommendations/${made.id}`)
        return await input.keep(tx, showWritten(input, made))
      })
      .catch(throwProblem)
  })

  const currentResource = {
    read: async (input: Pick<ContractInput<typeof updateRoute>, 'params' | 'context' | 'raw' | 'answer'>) => {
      const address = parseResourceAddress(input.params.id)
      const stored = await db.read(input.context, async (tx) => findRecommendation(tx, address))
      const forms = { show: (each: Recommendation) => each, stub: recommendationStub, today: today() }
      return stored && currentOf(input, stored, forms)
    },
  }
  patchRoute(app, updateRoute, currentResource, async (input) => {
    const { params, body, context } = input
    requireIfMatch(input)
    const address = parseResourceAddress(params.id)
    const record = createRecorder(context, checkpoints)
    const stored = await db
      .write(context, async (tx) => {
        const found = await findRecommendation(tx, address)
        if (found === undefined) throw problem('not_found')
        const finding = await lockFinding(tx, { by: 'id', id: found.finding_id })
        const progress = await listRecommendationProgress(tx, found.finding_id)
        const { recommendation: before, byPlans } = progress.find(
          ({ recommendation }) => recommendation.id === found.id,
        ) ?? { recommendation: found, byPlans: null }
        assertVersion(input, before.version)
        const isMoved = body.status !== undefined || body.response !== undefined
        const allowed = allowedMoves(before.status)
        if (finding?.status === 'cancelled' || allowed.length === 0) {
          const detail =
            finding?.status === 'cancelled'
              ? 'The finding is cancelled, so its recommendations cannot change.'
              : `The recommendation is ${before.status} and cannot change.`
          throw isMoved ? problem('invalid_transition', { detail, allowed: [] }) : problem('conflict', { detail })
        }
        const after = applyRecommendationPatch(before, body)
        if (after.status !== before.status && !allowed.includes(after.status)) {
          throw problem('invalid_transition', {
            detail: `The status ${before.status} can change only to ${allowed.join(', ')}.`,
            allowed,
          })
        }
        const faults = recommendationFaults(before, after, body, byPlans)
        if (faults.length > 0) throw invalidContent(faults)
        const changes = changesBetween(before, after, recommendationFields)
        if (changes.length === 0) return before
        const saved = await updateRecommendation(tx, after)
        const followed = await deriveRecommendationStatuses(tx, before.finding_id)
        await record(tx, [
          ...draftsOf(changes, { findingId: before.finding_id, recommendationId: before.id }),
          ...followed,
        ])
        return followed.length === 0 ? saved : ((await findRecommendation(tx, { by: 'id', id: saved.id })) ?? saved)
      })
      .catch(throwProblem)
    return showWritten(input, stored)
  })
}

function throwProblem(error: unknown): never {
  if (brokenConstraint(error) === 'recommendation_number_range') {
    throw problem('conflict', { detail: 'A finding can have at most 1000 recommendations.' })
  }
  throw problemOfTakenId('recommendation', brokenConstraint(error), error)
}

type ListQuery = Omit<ContractInput<typeof listRoute>['query'], 'finding_id'>

type List = ReturnType<typeof listOf>

function listOf(findings: readonly ResourceAddress[] | undefined, query: ListQuery, updatedSince: Date | undefined) {
  return {
    sort: query.sort,
    filter: {
      status: query.status,
      findings,
      externalId: query.external_id,
      text: query.q,
      updatedSince,
    },
  }
}
