import {
  type ResourceAddress,
  changeActionPlanStatus,
  createActionPlan,
  extendActionPlan,
  getActionPlan,
  listActionPlans as listRoute,
  listActionPlansOfFinding,
  parseResourceAddress,
  updateActionPlan as updateRoute,
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
import { prepareWrite } from '../prepare-write.ts'
import { ownersOfFilter } from '../universe/filter.ts'
import { getFindingId } from '../finding/get-finding-id.ts'
import { lockFinding } from '../finding/store.ts'
import { actorOf, assertVersion, entityTag, invalidContent, mayRead, requireIfMatch } from '../request.ts'
import type { Key } from '../keyset.ts'
import {
  assertChangeable,
  assertExtendable,
  changePlan,
  extensionDraft,
  lockPlan,
  movePlan,
  problemOfPlan,
  proposePlan,
} from './change.ts'
import { computedMembers, currentPlan } from './current.ts'
import { type StoredPlan, planAsRead, planStub } from './rules.ts'
import { actionPlanList, countActionPlans, findActionPlan, listActionPlans, updateActionPlan } from './store.ts'

export function actionPlanRoutes(
  app: App,
  deps: Pick<Deps, 'db' | 'now' | 'checkpoints' | 'universe' | 'evidence'>,
): void {
  const { db, now, universe } = deps
  const today = (): string => now().toISOString().slice(0, 10)
  const showWritten = (input: Pick<ContractInput<typeof updateRoute>, 'context' | 'answer'>, stored: StoredPlan) => {
    const day = today()
    input.answer.etag(entityTag(stored.version, day))
    return mayRead(input.context) ? planAsRead(stored, day) : planStub(stored)
  }

  const list = async (
    findings: readonly ResourceAddress[] | undefined,
    input: { readonly query: ListQuery } & Pick<ContractInput<typeof listRoute>, 'context' | 'requestId' | 'log'>,
  ) => {
    const { query } = input
    const day = today()
    const filter = {
      status: query.status,
      findings,
      owner: await ownersOfFilter(query.owner, input, universe),
      overdue: query.overdue === undefined ? undefined : { is: query.overdue === 'true', on: day },
      dueAfter: query.due_after,
      dueBefore: query.due_before,
      externalId: query.external_id,
      text: query.q,
      updatedSince: await findUpdatedSince(db, input),
    }
    return { sort: query.sort, day, filter }
  }
  type List = Awaited<ReturnType<typeof list>>
  const plans = {
    source: db,
    exportBatch: 250,
    mark: findFeedMark,
    key: ({ query }: { readonly query: ListQuery }) => actionPlanList.keySchema(query.sort),
    list: async (tx: Tx, { filter, sort }: List, place: PageStart<Key>) =>
      await listActionPlans(tx, filter, { sort, ...place }),
    count: async (tx: Tx, { filter }: List) => await countActionPlans(tx, filter),
    keyOf: (row: StoredPlan, { sort }: List) => actionPlanList.keyOf(row, sort),
    show: (row: StoredPlan, { day }: List) => planAsRead(row, day),
  }
  storedList(app, listRoute, {
    ...plans,
    asked: async (input) => await list(input.query.finding_id?.map(parseResourceAddress), input),
  })
  storedList(app, listActionPlansOfFinding, {
    ...plans,
    asked: async (input) => await list([{ by: 'id', id: await getFindingId(db, input) }], input),
  })

  contractRoute(app, getActionPlan, async ({ params, context, answer }) => {
    const address = parseResourceAddress(params.id)
    const stored = await db.read(context, async (tx) => findActionPlan(tx, address))
    if (stored === undefined) throw problem('not_found')
    const day = today()
    answer.etag(entityTag(stored.version, day))
    return planAsRead(stored, day)
  })

  contractRoute(app, createActionPlan, async (input) => {
    const { params, context, answer } = input
    const { body, assertKnown, record } = await prepareWrite(deps, input)
    const address = parseResourceAddress(params.id)
    return await db
      .write(context, async (tx) => {
        const finding = await lockFinding(tx, address)
        if (finding === undefined) throw problem('not_found')
        assertKnown(body)
        const { plan, drafts } = await proposePlan(tx, finding, body, actorOf(context))
        await record(tx, drafts)
        answer.header('location', `/api/v1/action-plans/${plan.id}`)
        return await input.keep(tx, showWritten(input, plan))
      })
      .catch(throwPlanProblem)
  })

  const currentResource = {
    computed: computedMembers,
    read: async (input: Pick<ContractInput<typeof updateRoute>, 'params' | 'context' | 'raw' | 'answer'>) => {
      const address = parseResourceAddress(input.params.id)
      const stored = await db.read(input.context, async (tx) => findActionPlan(tx, address))
      return stored && currentPlan(input, stored, today())
    },
  }
  patchRoute(app, updateRoute, currentResource, async (input) => {
    const { params, context } = input
    requireIfMatch(input)
    const { body, assertKnown, record } = await prepareWrite(deps, input)
    const address = parseResourceAddress(params.id)
    const stored = await db
      .write(context, async (tx) => {
        const held = await lockPlan(tx, address)
        if (held === undefined) throw problem('not_found')
        assertVersion(input, held.plan.version)
        assertChangeable(held, body.status !== undefined)
        assertKnown(body, held.plan)
        const { plan, drafts } = await changePlan(tx, held, body, actorOf(context))
        await record(tx, drafts)
        return plan
      })
      .catch(throwPlanProblem)
    return showWritten(input, stored)
  })

  contractRoute(app, changeActionPlanStatus, async (input) => {
    const { params, context } = input
    const { body, assertKnown, record } = await prepareWrite(deps, input)
    const address = parseResourceAddress(params.id)
    return await db
      .write(context, async (tx) => {
        const held = await lockPlan(tx, address)
        if (held === undefined) throw problem('not_found')
        assertVersion(input, held.plan.version)
        assertChangeable(held, true)
        assertKnown(body)
        const moved = await movePlan(tx, held, held.plan, body, undefined)
        await record(tx, moved.drafts)
        return await input.keep(tx, showWritten(input, moved.plan))
      })
      .catch(throwPlanProblem)
  })

  contractRoute(app, extendActionPlan, async (input) => {
    const { params, context } = input
    const { body, assertKnown, record } = await prepareWrite(deps, input)
    const address = parseResourceAddress(params.id)
    return await db
      .write(context, async (tx) => {
        const held = await lockPlan(tx, address)
        if (held === undefined) throw problem('not_found')
        const { plan, finding } = held
        assertVersion(input, plan.version)
        assertChangeable(held, false)
        assertKnown(body)
        if (body.to <= plan.due_date) {
          throw invalidContent([
            { pointer: '/to', code: 'out_of_range', detail: 'must be later than the current due date' },
          ])
        }
        assertExtendable(plan)
        const { to, reason, approved_by: approvedBy } = body
        const extension = { to, reason, approvedBy, createdBy: actorOf(context) }
        const saved = await updateActionPlan(tx, plan, plan, extension)
        await record(tx, [extensionDraft({ findingId: finding.id, actionPlanId: plan.id }, plan.due_date, extension)])
        return await input.keep(tx, showWritten(input, saved))
      })
      .catch((error: unknown) => throwPlanProblem(error, '/reason'))
  })
}

function throwPlanProblem(error: unknown, reasonAt?: string): never {
  throw problemOfPlan(error, reasonAt)
}

type ListQuery = Omit<ContractInput<typeof listRoute>['query'], 'finding_id'>
