import {
  changeFindingStatus,
  createFinding,
  findingTransitions,
  getFinding,
  listFindings as listRoute,
  parseResourceAddress,
  summarizeFindings as summarizeRoute,
  updateFinding as updateRoute,
} from '@postern/contracts'
import {
  type App,
  type ContractInput,
  allPages,
  contractList,
  contractRoute,
  openPage,
  problem,
} from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { keySchema } from '../keyset.ts'
import { actorOf, assertVersion, entityTag, mayRead, requireIfMatch } from '../request.ts'
import { recorderOf } from '../tracker-log/record.ts'
import { describeMoves } from '../transitions.ts'
import { changeFinding, documentFinding, moveFinding, problemOfFinding } from './change.ts'
import { type StoredFinding, asRead, asStub } from './rules.ts'
import { type FindingFilter, countFindings, findingList, listFindings, summarizeFindings } from './list/store.ts'
import { findFinding, findProgress, lockFinding } from './store.ts'
import { findingMoves } from './transitions.ts'

/** Listing, reading, documenting and changing findings, and moving their status. */
export function findingRoutes(app: App, { db, now, checkpoints }: Pick<Deps, 'db' | 'now' | 'checkpoints'>): void {
  const today = (): string => now().toISOString().slice(0, 10)

  const answered = (input: Pick<ContractInput<typeof updateRoute>, 'context' | 'answer'>, stored: StoredFinding) => {
    const day = today()
    input.answer.etag(entityTag(stored.version, day))
    return mayRead(input.context) ? asRead(stored, day) : asStub(stored)
  }

  const listOf = (input: ContractInput<typeof listRoute>) => {
    const { sort } = input.query
    const key = keySchema.refine((given) => findingList.isKey(given, sort))
    return { sort, page: openPage(input, listRoute, key), filter: filterOf(input.query, today()) }
  }

  contractList(app, listRoute, {
    page: async (input) => {
      const { sort, page, filter } = listOf(input)
      const day = today()
      const [rows, total] = await db.read(input.context, async (tx) =>
        Promise.all([
          listFindings(tx, filter, { sort, after: page.after, limit: page.limit + 1 }),
          page.wantsTotal ? countFindings(tx, filter) : undefined,
        ]),
      )
      if (total !== undefined) page.total(total)
      return page.finish(rows, (row) => findingList.keyOf(row, sort)).map((row) => asRead(row, day))
    },
    all: (input) => {
      const { sort, page, filter } = listOf(input)
      const day = today()
      return allPages(
        page.after,
        exportBatch,
        async (after, limit) =>
          await db.read(input.context, async (tx) =>
            (await listFindings(tx, filter, { sort, after, limit })).map((row) => asRead(row, day)),
          ),
        (row) => findingList.keyOf(row, sort),
      )
    },
    columns: findingColumns,
  })

  contractRoute(app, summarizeRoute, async ({ query, context }) => {
    const day = today()
    return await db.read(context, async (tx) => summarizeFindings(tx, filterOf(query, day), query.group_by, day))
  })

  contractRoute(app, getFinding, async ({ params, context, answer }) => {
    const address = parseResourceAddress(params.id)
    const stored = await db.read(context, async (tx) => findFinding(tx, address))
    if (stored === undefined) throw problem('not_found')
    const day = today()
    answer.etag(entityTag(stored.version, day))
    return asRead(stored, day)
  })

  contractRoute(app, createFinding, async (input) => {
    const { body, context, answer } = input
    const record = recorderOf(context, checkpoints)
    return await db
      .write(context, async (tx) => {
        const { finding, drafts } = await documentFinding(tx, body, actorOf(context))
        await record(tx, drafts)
        answer.header('location', `/api/v1/findings/${finding.id}`)
        return await input.keep(tx, answered(input, finding))
      })
      .catch(refused)
  })

  contractRoute(app, updateRoute, async (input) => {
    const { params, body, context } = input
    requireIfMatch(input)
    const address = parseResourceAddress(params.id)
    const record = recorderOf(context, checkpoints)
    const stored = await db
      .write(context, async (tx) => {
        const before = await lockFinding(tx, address)
        if (before === undefined) throw problem('not_found')
        assertVersion(input, before.version)
        const { finding, drafts } = await changeFinding(tx, before, body)
        await record(tx, drafts)
        return finding
      })
      .catch(refused)
    return answered(input, stored)
  })

  contractRoute(app, changeFindingStatus, async (input) => {
    const { params, body, context } = input
    const address = parseResourceAddress(params.id)
    const record = recorderOf(context, checkpoints)
    return await db
      .write(context, async (tx) => {
        const before = await lockFinding(tx, address)
        if (before === undefined) throw problem('not_found')
        assertVersion(input, before.version)
        const { finding, drafts } = await moveFinding(tx, before, body, today())
        await record(tx, drafts)
        return await input.keep(tx, answered(input, finding))
      })
      .catch(refused)
  })

  contractRoute(app, findingTransitions, async ({ params, context }) => {
    const address = parseResourceAddress(params.id)
    const finding = await db.read(context, async (tx) => findFinding(tx, address))
    if (finding === undefined) throw problem('not_found')
    const progress = await db.read(context, async (tx) => findProgress(tx, finding.id))
    return describeMoves(findingMoves, finding.status, { finding, ...progress, today: today(), request: {} })
  })
}

/** Findings that an export holds in memory at a time. */
const exportBatch = 250

/** The columns of a CSV of findings. */
const findingColumns = [
  'id',
  'reference',
  'external_id',
  'title',
  'status',
  'severity',
  'type',
  'owner',
  'entity_ids',
  'identified_date',
  'target_date',
  'is_overdue',
  'age_days',
  'closed_date',
  'reopened_count',
  'is_repeat',
  'repeat_of_id',
  'source',
  'engagement_ref',
  'test_procedure_id',
  'cause_category',
  'deficiency_class',
  'coso_component',
  'condition',
  'criteria',
  'cause',
  'consequence',
  'corrective_action',
  'management_response',
  'accepted_until',
  'is_acceptance_expired',
  'accepted_by',
  'validated_by',
  'custom',
  'created_by',
  'created_at',
  'updated_at',
  'version',
] as const

type Query = Omit<ContractInput<typeof summarizeRoute>['query'], 'group_by'>

/** The filter that the parameters of a list ask for, on a day (UTC). */
export function filterOf(query: Query, today: string): FindingFilter {
  return {
    status: query.status,
    severity: query.severity,
    type: query.type,
    source: query.source,
    entityId: query.entity_id,
    owner: query.owner,
    overdue: query.overdue === undefined ? undefined : { is: query.overdue === 'true', on: today },
    repeat: query.repeat === undefined ? undefined : query.repeat === 'true',
    identifiedFrom: query.identified_from,
    identifiedTo: query.identified_to,
    targetAfter: query.target_after,
    targetBefore: query.target_before,
    externalId: query.external_id,
    text: query.q,
    updatedSince: query.updated_since === undefined ? undefined : new Date(query.updated_since),
  }
}

function refused(error: unknown): never {
  throw problemOfFinding(error)
}
