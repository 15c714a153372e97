import { isDeepStrictEqual } from 'node:util'
import type { PushedNode, PushedPerson } from '@postern/contracts'
import { type RequestInfo, matchesEtag, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { recordAuditEvent } from '../audit/store.ts'
import { touchScimConnector } from '../push/connector-store.ts'
import type { Deps } from '../deps.ts'
import { unusableAddress } from '../dataset/warnings.ts'
import { excerptOf } from '../mapping/excerpt.ts'
import { actorOf } from '../run/actor.ts'
import { interruptedAfterSeconds } from '../run/rules.ts'
import { failInterruptedRuns, startInlineRun } from '../push/run-store.ts'
import { sqlError } from '../sql/store.ts'
import { allowWork } from '../granted-work/store.ts'
import { type RowError, insertErrors } from '../run/error-store.ts'
import { type Unit, type User, type UserFacts, personOf, readUser } from './content.ts'
import { withHeads } from './head.ts'
import { correctUniverse, findPerson, refreshUnits } from './correct-universe.ts'
import { type PendingPush, deletePendingPushes, insertPendingPush } from './pending-store.ts'
import {
  type StoredUser,
  deleteUser,
  endUserAccess,
  findTaken,
  findUser,
  insertUser,
  publishUser,
  touchUser,
  updateUser,
} from './store.ts'
import { listInhabited } from './unit-store.ts'
import { leaveGroups, touchGroupsOf } from './group-store.ts'
import { type Sender, pushToUniverse, uniquenessProblem } from './push-to-universe.ts'
import { keysOf, unitChanges, unitKeysOf } from './unit.ts'

const maxRounds = 5

type Parts = Pick<Deps, 'db' | 'universe' | 'queue' | 'countEndedUser'>
type Request = Pick<RequestInfo, 'context' | 'requestId' | 'raw' | 'log'>

interface Plan {
  readonly before: StoredUser | undefined
  readonly after: User | undefined
  readonly id: string
  readonly personKey: string
  readonly people: readonly PushedPerson[]
  readonly nodes: readonly PushedNode[]
  readonly units: readonly (Unit | undefined)[]
  readonly inhabited: readonly string[]
  readonly fallback: PushedPerson
  /** Undefined if there is nothing to push. */
  readonly push: { readonly runId: string; readonly pendingId: string } | undefined
}

/**
 * Creates, changes or deletes a user (`change` returns undefined). Stores only what the universe applied. `keep` runs in
 * the same transaction.
 */
export async function writeUser<T>(
  parts: Parts,
  request: Request,
  id: string | undefined,
  change: (before: StoredUser | undefined) => User | undefined,
  keep: (tx: Tx, user: StoredUser | undefined) => Promise<T>,
): Promise<T> {
  const { plan, value } = await pushAndStore(parts, request, id, change, keep)
  if (plan.before?.active === true && plan.after?.facts.active !== true) parts.countEndedUser()
  await refreshUnits(parts, senderOf(request), plan).catch((error: unknown) => logFailure(request, error))
  return value
}

function senderOf({ context, requestId }: Request): Sender {
  return { context, requestId, actor: actorOf(context) }
}

function logFailure({ log, requestId }: Request, error: unknown): void {
  log.warn({ event: 'scim_correction_failed', request_id: requestId, err: error })
}

async function pushAndStore<T>(
  parts: Parts,
  request: Request,
  id: string | undefined,
  change: (before: StoredUser | undefined) => User | undefined,
  keep: (tx: Tx, user: StoredUser | undefined) => Promise<T>,
): Promise<{ readonly plan: Plan; readonly value: T }> {
  const { db } = parts
  const { context } = request
  const sender = senderOf(request)
  const stored = id === undefined ? await findPerson(parts, sender, personOfNew(change(undefined))) : undefined
  // Plans that the universe may have applied.
  const pushedPlans: Plan[] = []
  try {
    for (let round = 1; round <= maxRounds; round += 1) {
      const hasPushed = pushedPlans.length > 0
      const plan = await db.write(context, async (tx) => {
        return await makePlan(tx, parts.queue, request, { id, change, hasPushed, stored })
      })
      if (plan.push !== undefined) {
        const { mayBeApplied, failure } = await pushToUniverse(parts, sender, plan, plan.push)
        if (mayBeApplied) pushedPlans.push(plan)
        if (failure !== undefined) throw failure
      }
      const kept = await keepUser(parts, request, plan, keep, { hasPushed, pendingIds: pendingIdsOf(pushedPlans) })
      if (kept.done) return { plan, value: kept.value }
    }
    throw problem('conflict', { detail: 'Other requests are changing the user. Try again.' })
  } catch (error) {
    await undoPushes(parts, request, pushedPlans).catch((failure: unknown) => logFailure(request, failure))
    throw error
  }
}

/** If it fails, a worker corrects the universe later. */
async function undoPushes(parts: Parts, request: Request, plans: readonly Plan[]): Promise<void> {
  const last = plans.at(-1)
  if (last === undefined) return
  const { personKey, fallback, units } = last
  const pushed = plans.flatMap(({ people }) => people.filter(({ external_id: key }) => key === personKey))
  const unitKeys = keysOf(units[0], units[1])
  await correctUniverse(parts, senderOf(request), { personKey, fallback, pushed, unitKeys })
  await parts.db.write(request.context, async (tx) => await deletePendingPushes(tx, pendingIdsOf(plans)))
}

function pendingIdsOf(plans: readonly Plan[]): string[] {
  return plans.flatMap(({ push }) => push?.pendingId ?? [])
}

async function makePlan(
  tx: Tx,
  queue: Parts['queue'],
  { context, requestId, raw }: Request,
  {
    id,
    change,
    hasPushed,
    stored,
  }: {
    readonly id: string | undefined
    readonly change: (before: StoredUser | undefined) => User | undefined
    readonly hasPushed: boolean
    readonly stored: PushedPerson | undefined
  },
): Promise<Plan> {
  const before = id === undefined ? undefined : await findUser(tx, id)
  if (id !== undefined && before === undefined) throw problem('not_found')
  const ifMatch = raw.headers['if-match']
  if (before !== undefined && ifMatch !== undefined && !matchesEtag(ifMatch, etagOf(before))) {
    throw problem('precondition_failed', { detail: 'The user has changed. Read it again and repeat your change.' })
  }
  const after = change(before)
  // The universe may refuse the change, or be away.
  if (before?.active === true && after?.facts.active !== true) await endUserAccess(tx, before.id)
  const userId = before?.id ?? crypto.randomUUID()
  const personKey = await resolvePersonKey(tx, before, after, userId)
  const earlier = before === undefined ? undefined : readUser(before.content, before.active)
  const person = personOf(personKey, after?.facts ?? { ...factsOf(earlier), active: false })
  // An overtaken write pushes again, because the universe may have applied it last.
  const isKnown = !hasPushed && earlier !== undefined && isDeepStrictEqual(person, personOf(personKey, earlier.facts))
  const units = [earlier, after].map((user) => (user?.facts.active === true ? user.facts.unit : undefined))
  const inhabited = await listInhabited(tx, keysOf(units[0], units[1]), before?.id)
  const moved = unitChanges(units[0], units[1], new Set(inhabited))
  const nodes = await withHeads(tx, moved, { id: userId, before: earlier, after })
  const people = isKnown ? [] : [person]
  const fallback = stored?.external_id === personKey ? stored : inactivePersonOf(personKey, earlier, after)
  const plan = { before, after, id: userId, personKey, people, nodes, units, inhabited, fallback }
  if (people.length + nodes.length === 0) return { ...plan, push: undefined }
  await failInterruptedRuns(tx, interruptedAfterSeconds)
  const connectorId = await touchScimConnector(tx)
  const run = { connectorId, fetched: people.length + nodes.length, actor: actorOf(context), requestId }
  const runId = await startInlineRun(tx, run)
  const unusable = after?.facts.unusableEmail
  if (unusable !== undefined) await insertErrors(tx, runId, [warnOfAddress(personKey, unusable)])
  const pending: PendingPush = {
    personKey,
    pushed: people[0] ?? null,
    fallback,
    unitKeys: keysOf(units[0], units[1]),
  }
  const pendingId = await insertPendingPush(tx, pending)
  await allowWork(tx, connectorId)
  await queue.sendScimCorrection(tx, connectorId, interruptedAfterSeconds)
  return { ...plan, push: { runId, pendingId } }
}

/** A person without a user is inactive. A new one does not keep an address from others. */
function inactivePersonOf(personKey: string, earlier: User | undefined, after: User | undefined): PushedPerson {
  const facts = earlier?.facts ?? { ...factsOf(after), email: undefined }
  return personOf(personKey, { ...facts, active: false })
}

function warnOfAddress(key: string, address: string): RowError {
  const { code, message } = unusableAddress
  return { row: null, key, field: 'emails', code, message, excerpt: excerptOf(address), severity: 'warning' }
}

function factsOf(user: User | undefined): UserFacts {
  if (user === undefined) throw new Error('the user does not exist')
  return user.facts
}

/** Throws `uniqueness` if another user has a name. */
async function resolvePersonKey(
  tx: Tx,
  before: StoredUser | undefined,
  after: User | undefined,
  id: string,
): Promise<string> {
  if (after === undefined) return before?.personKey ?? id
  const { userName, externalId } = after.facts
  const personKey = before?.personKey ?? externalId ?? userName
  const taken = await findTaken(tx, { userName, externalId, personKey, id: before?.id })
  if (taken.userName) throw uniquenessProblem('/userName', 'is the userName of another user')
  if (taken.externalId) throw uniquenessProblem('/externalId', 'is the externalId of another user')
  // Another user had this name first and has a new one now.
  return taken.personKey ? id : personKey
}

function personOfNew(user: User | undefined): PushedPerson {
  const facts = factsOf(user)
  return personOf(facts.externalId ?? facts.userName, facts)
}

type StoreOutcome<T> = { readonly done: true; readonly value: T } | { readonly done: false }

async function keepUser<T>(
  parts: Parts,
  request: Request,
  plan: Plan,
  keep: (tx: Tx, user: StoredUser | undefined) => Promise<T>,
  { hasPushed, pendingIds }: { readonly hasPushed: boolean; readonly pendingIds: readonly string[] },
): Promise<StoreOutcome<T>> {
  const { before, after, id, personKey } = plan
  try {
    return await parts.db.write(request.context, async (tx): Promise<StoreOutcome<T>> => {
      if (after === undefined || before === undefined) {
        if (after !== undefined) await insertUser(tx, id, personKey, rowOf(after))
        else if (before !== undefined) {
          if (!(await deleteUser(tx, before.id, before.version))) return { done: false }
          await leaveGroups(tx, before.id)
        }
      } else if (!isDeepStrictEqual(after.content, before.content)) {
        if (!(await updateUser(tx, id, before.version, rowOf(after)))) return { done: false }
        if (getShownName(before.content) !== getShownName(after.content)) await touchGroupsOf(tx, id)
      } else {
        if (hasPushed && !(await touchUser(tx, id, before.version))) return { done: false }
        await publishUser(tx, id, hasPushed ? before.version + 1 : before.version)
      }
      if (before?.active === true && after?.facts.active !== true) {
        await recordAuditEvent(tx, request, {
          category: 'directory',
          action: 'directory.person_deactivated',
          resource: { type: 'person', id, name: readUser(before.content).facts.name },
        })
      }
      await deletePendingPushes(tx, pendingIds)
      return { done: true, value: await keep(tx, after === undefined ? undefined : await findUser(tx, id)) }
    })
  } catch (error) {
    if (sqlError(error).kind !== 'unique') throw error
    throw uniquenessProblem('/userName', 'or the externalId, was just taken by another new user')
  }
}

function getShownName({ displayName, userName }: User['content']): unknown {
  return displayName ?? userName
}

function rowOf({ content, facts }: User) {
  const { userName, externalId, active, unit, manager } = facts
  const { lowest: unitKey, division: divisionKey } = unitKeysOf(unit)
  return { userName, externalId, active, unitKey, divisionKey, manager, content }
}

export function etagOf({ version }: Pick<StoredUser, 'version'>): string {
  return `"${version}"`
}
