import {
  type ActionPlanBulkItem,
  type BulkMode,
  type CreatedBy,
  type FindingBulkItem,
  type ParsedItem,
  actionPlanBulkItemSchema,
  bulkActionPlans,
  bulkFindings,
  createActionPlanBodySchema,
  createFindingBodySchema,
  findingBulkItemSchema,
  maxBulkItems,
  parseResourceAddress,
} from '@postern/contracts'
import { type App, type RequestInfo, contractRoute, inputErrors, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import {
  assertChangeable,
  changePlan,
  lockPlan,
  isUnchanged,
  problemOfPlan,
  proposePlan,
} from '../action-plan/change.ts'
import { computedMembers as computedOfPlan, currentPlan } from '../action-plan/current.ts'
import { findActionPlan } from '../action-plan/store.ts'
import type { Deps } from '../deps.ts'
import { prepareWrites } from '../prepare-write.ts'
import {
  changeFinding,
  documentFinding,
  isUnchanged as isUnchangedFinding,
  moveFinding,
  problemOfFinding,
} from '../finding/change.ts'
import { computedMembers as computedOfFinding, currentFinding } from '../finding/current.ts'
import { findFinding, lockFinding } from '../finding/store.ts'
import { brokenConstraint } from '../sql/store.ts'
import { actorOf, invalidContent } from '../request.ts'
import type { ReferenceCheck } from '../reference/check.ts'
import { type ItemKind, addressOf, parseItems } from './parse-items.ts'
import { withUsableOwners } from './usable-owner.ts'
import { type AppliedItem, assertItemVersion, requireItemVersion, runBulk, withoutNulls } from './run.ts'

type BulkDeps = Pick<Deps, 'db' | 'now' | 'checkpoints' | 'universe' | 'evidence'>

export function bulkRoutes(app: App, deps: BulkDeps): void {
  const { db, now } = deps

  contractRoute(app, bulkFindings, async (input) => {
    const today = now().toISOString().slice(0, 10)
    const actor = actorOf(input.context)
    const { body, link, assertKnown, record } = await prepareBulk(deps, input, {
      schema: findingBulkItemSchema,
      computed: computedOfFinding,
      find: async (tx, address) => {
        const stored = await findFinding(tx, address)
        return stored && { ...currentFinding(input, stored, today), version: stored.version }
      },
    })
    return await runBulk(
      { ...input, body },
      { db, record, today },
      {
        addressesOf: (items) => ({ findings: items.flatMap((item) => addressOf(item) ?? []), plans: [] }),
        apply: async (tx, item) => await applyFinding(tx, link(item), { actor, today, assertKnown }),
        problemOf: problemOfFinding,
        isConcurrentCreate: (error) => brokenConstraint(error) === 'finding_external_id_unique',
      },
    )
  })

  contractRoute(app, bulkActionPlans, async (input) => {
    const today = now().toISOString().slice(0, 10)
    const actor = actorOf(input.context)
    const { body, link, assertKnown, record } = await prepareBulk(deps, input, {
      schema: actionPlanBulkItemSchema,
      computed: computedOfPlan,
      find: async (tx, address) => {
        const stored = await findActionPlan(tx, address)
        return stored && { ...currentPlan(input, stored, today), version: stored.version }
      },
    })
    return await runBulk(
      { ...input, body },
      { db, record, today },
      {
        addressesOf: (items) => ({
          findings: items.flatMap(({ finding }) => (finding === undefined ? [] : [parseResourceAddress(finding)])),
          plans: items.flatMap((item) => addressOf(item) ?? []),
        }),
        apply: async (tx, item) => await applyPlan(tx, link(item), { actor, assertKnown }),
        problemOf: (error) => problemOfPlan(error),
        isConcurrentCreate: (error) => brokenConstraint(error) === 'action_plan_external_id_unique',
      },
    )
  })
}

/** Parses the items, and asks other services about what the valid ones name. */
async function prepareBulk<Item extends FindingBulkItem | ActionPlanBulkItem>(
  deps: BulkDeps,
  input: Pick<RequestInfo, 'context' | 'requestId' | 'log'> & {
    readonly body: { readonly mode: BulkMode; readonly items: readonly ParsedItem<Item>[] }
  },
  kind: ItemKind<Item>,
) {
  const parsed = await parseItems(input.body.items, { db: deps.db, context: input.context }, kind)
  const body = { mode: input.body.mode, ...withUsableOwners(parsed) }
  const valid = body.items.slice(0, maxBulkItems).flatMap((own) => (own.ok ? [own.item] : []))
  return { body, ...(await prepareWrites(deps, input, valid)) }
}

interface BulkContext {
  readonly actor: CreatedBy
  readonly assertKnown: ReferenceCheck
}

async function applyFinding(
  tx: Tx,
  item: FindingBulkItem,
  { actor, today, assertKnown }: BulkContext & { readonly today: string },
): Promise<AppliedItem> {
  requireItemVersion(item)
  const { id, version, status, ...fields } = item
  const address = addressOf(item)
  const before = address === undefined ? undefined : await lockFinding(tx, address)
  if (before === undefined) {
    if (id !== undefined) throw problem('not_found')
    assertItemVersion(version, undefined)
    const body = createFindingBodySchema.safeParse(withoutNulls({ ...fields, status }))
    if (!body.success) throw invalidContent(inputErrors(body.error, 'body', { schema: createFindingBodySchema }))
    assertKnown(body.data)
    const { finding, drafts } = await documentFinding(tx, body.data, actor)
    return { isNew: true, resource: finding, drafts }
  }
  assertItemVersion(version, before.version)
  assertKnown(fields, before)
  // A full push also contains cancelled findings.
  if (before.status === 'cancelled' && isUnchangedFinding(before, fields)) {
    return { isNew: false, resource: before, drafts: [] }
  }
  const changed = await changeFinding(tx, before, fields)
  if (status !== 'open' || before.status !== 'draft') {
    return { isNew: false, resource: changed.finding, drafts: changed.drafts }
  }
  const opened = await moveFinding(tx, changed.finding, { to: 'open', evidence_refs: [] }, today)
  return { isNew: false, resource: opened.finding, drafts: [...changed.drafts, ...opened.drafts] }
}

async function applyPlan(tx: Tx, item: ActionPlanBulkItem, { actor, assertKnown }: BulkContext): Promise<AppliedItem> {
  requireItemVersion(item)
  const { id, version, finding: named, ...patch } = item
  const address = addressOf(item)
  const held = address === undefined ? undefined : await lockPlan(tx, address)
  if (held === undefined) {
    if (id !== undefined) throw problem('not_found')
    assertItemVersion(version, undefined)
    assertKnown(patch)
    return await proposeItem(tx, named, patch, actor)
  }
  assertItemVersion(version, held.plan.version)
  assertKnown(patch, held.plan)
  if (named !== undefined) {
    const finding = await lockFinding(tx, parseResourceAddress(named))
    if (finding?.id !== held.finding.id) {
      throw invalidContent([{ pointer: '/finding', code: 'fixed', detail: 'must be the finding of the action plan' }])
    }
  }
  if (isUnchanged(held.plan, patch)) return { isNew: false, resource: held.plan, drafts: [] }
  assertChangeable(held, patch.status !== undefined)
  const { plan, drafts } = await changePlan(tx, held, patch, actor)
  return { isNew: false, resource: plan, drafts }
}

type NewPlan = Omit<ActionPlanBulkItem, 'id' | 'version' | 'finding'>

async function proposeItem(tx: Tx, named: string | undefined, item: NewPlan, actor: CreatedBy): Promise<AppliedItem> {
  if (named === undefined) {
    throw invalidContent([{ pointer: '/finding', code: 'required', detail: 'is required for a new action plan' }])
  }
  const { percent_complete, status, reason, note, verified_by, evidence_refs, ...fields } = item
  const body = createActionPlanBodySchema.safeParse(withoutNulls(fields))
  if (!body.success) throw invalidContent(inputErrors(body.error, 'body', { schema: createActionPlanBodySchema }))
  const finding = await lockFinding(tx, parseResourceAddress(named))
  if (finding === undefined) {
    throw invalidContent([{ pointer: '/finding', code: 'unknown', detail: 'must be the address of a finding' }])
  }
  const made = await proposePlan(tx, finding, body.data, actor)
  const patch = { percent_complete, status, reason, note, verified_by, evidence_refs }
  if (isUnchanged(made.plan, patch)) return { isNew: true, resource: made.plan, drafts: made.drafts }
  const { plan, drafts } = await changePlan(tx, { plan: made.plan, finding }, patch, actor)
  return { isNew: true, resource: plan, drafts: [...made.drafts, ...drafts] }
}
