import { isDeepStrictEqual } from 'node:util'
import type { PushedNode, PushedPerson } from '@postern/contracts'
import { type RequestInfo, matchesEtag, problem } from '@postern/service-kit'
import { touchScimConnector } from '../connector/store.ts'
import { scopeOf } from '../dataset/rules.ts'
import type { Deps } from '../deps.ts'
import { doubtPushedRows } from '../push/doubt.ts'
import { problemOf } from '../push/refusal.ts'
import { runOutcomeOf } from '../push/rules.ts'
import type { ApplicationOutcome } from '../push/universe.ts'
import { actorOf } from '../run/actor.ts'
import { interruptedAfterSeconds } from '../run/rules.ts'
import { failInterruptedRuns, finishRun, startInlineRun } from '../run/store.ts'
import { type User, type UserFacts, personOf, readUser } from './content.ts'
import {
  type StoredUser,
  type Tx,
  deleteUser,
  findTaken,
  findUser,
  findUserOfPerson,
  insertUser,
  listGoneHolders,
  listInhabited,
  sqlError,
  takeEmail,
  updateUser,
} from './store.ts'
import { withHeads } from './head.ts'
import { keysOf, scimHierarchy, unitChanges, unitKeysOf } from './unit.ts'

type Parts = Pick<Deps, 'db' | 'universe'>
type Request = Pick<RequestInfo, 'context' | 'requestId' | 'raw' | 'log'>

/** How often a write begins anew because somebody else has written the user meanwhile. */
const maxRounds = 5

/** What a write is to do, decided on how things stand. */
interface Plan {
  readonly before: StoredUser | undefined
  /** Undefined: the user is deleted. */
  readonly after: User | undefined
  readonly id: string
  readonly personKey: string
  readonly people: readonly PushedPerson[]
  readonly nodes: readonly PushedNode[]
  readonly runId: string | undefined
}

/**
 * Makes, changes or deletes a user: `change` says what becomes of it (undefined: deleted). The universe is told first, and
 * only what it has taken is kept: a write that was cut off is made again by the provider, and changes nothing twice.
 * `keep` runs in the transaction that keeps the user.
 */
export async function writeUser<T>(
  parts: Parts,
  request: Request,
  id: string | undefined,
  change: (before: StoredUser | undefined) => User | undefined,
  keep: (tx: Tx, user: StoredUser | undefined) => Promise<T>,
): Promise<T> {
  const { db } = parts
  const { context } = request
  for (let round = 1; round <= maxRounds; round += 1) {
    const plan = await db.write(context, async (tx) => await makePlan(tx, request, id, change))
    if (plan.runId !== undefined) await tellUniverse(parts, request, plan, plan.runId)
    const kept = await keepUser(parts, request, plan, keep)
    if (kept.done) return kept.value
  }
  throw problem('conflict', { detail: 'Others are changing the user at the same time. Try again.' })
}

async function makePlan(
  tx: Tx,
  { context, requestId, raw }: Request,
  id: string | undefined,
  change: (before: StoredUser | undefined) => User | undefined,
): Promise<Plan> {
  const before = id === undefined ? undefined : await findUser(tx, id)
  if (id !== undefined && before === undefined) throw problem('not_found')
  const ifMatch = raw.headers['if-match']
  if (before !== undefined && ifMatch !== undefined && !matchesEtag(ifMatch, etagOf(before))) {
    throw problem('precondition_failed', { detail: 'Read the user again and repeat the change on what it is now.' })
  }
  const after = change(before)
  const userId = before?.id ?? crypto.randomUUID()
  const personKey = await settleNames(tx, before, after, userId)
  const earlier = before === undefined ? undefined : readUser(before.content)
  const person = personOf(personKey, after?.facts ?? { ...factsOf(earlier), active: false })
  const isKnown = earlier !== undefined && isDeepStrictEqual(person, personOf(personKey, earlier.facts))
  const gone = person.email === undefined ? [] : await listGoneHolders(tx, person.email, personKey)
  const units = [earlier, after].map((user) => (user?.facts.active === true ? user.facts.unit : undefined))
  const inhabited = await listInhabited(tx, keysOf(units[0], units[1]), before?.id)
  const moved = unitChanges(units[0], units[1], new Set(inhabited))
  const nodes = await withHeads(tx, moved, { id: userId, before: earlier, after })
  const people = [...(isKnown ? [] : [person]), ...gone.map(withoutAddress)]
  const plan = { before, after, id: userId, personKey, people, nodes }
  if (people.length + nodes.length === 0) return { ...plan, runId: undefined }
  await failInterruptedRuns(tx, interruptedAfterSeconds)
  const connectorId = await touchScimConnector(tx)
  const run = { connectorId, fetched: people.length + nodes.length, actor: actorOf(context), requestId }
  return { ...plan, runId: await startInlineRun(tx, run) }
}

function factsOf(user: User | undefined): UserFacts {
  if (user === undefined) throw new Error('a user who was never there cannot be deleted')
  return user.facts
}

/** A deleted user's person gives the address up, so that somebody else can have it. */
function withoutAddress(user: StoredUser): PushedPerson {
  return personOf(user.personKey, { ...readUser(user.content).facts, email: undefined, active: false })
}

/** Which person of the universe the user is. Throws `uniqueness` where a name is another user's. */
async function settleNames(
  tx: Tx,
  before: StoredUser | undefined,
  after: User | undefined,
  id: string,
): Promise<string> {
  if (after === undefined) return before?.personKey ?? id
  const { userName, externalId } = after.facts
  const personKey = before?.personKey ?? externalId ?? userName
  const taken = await findTaken(tx, { userName, externalId, personKey, id: before?.id })
  if (taken.userName) throw notUnique('/userName', 'is the userName of another user')
  if (taken.externalId) throw notUnique('/externalId', 'is the externalId of another user')
  // Somebody was first known by this name, and has another one now.
  return taken.personKey ? id : personKey
}

function notUnique(pointer: string, detail: string) {
  return problem('conflict', { detail: 'Nothing was changed.', errors: [{ pointer, code: 'uniqueness', detail }] })
}

async function tellUniverse(
  { db, universe }: Parts,
  { context, requestId }: Request,
  { people, nodes }: Pick<Plan, 'people' | 'nodes'>,
  runId: string,
): Promise<void> {
  await db.write(context, async (tx) => {
    await doubtPushedRows(tx, [
      { scope: scopeOf('people', undefined), keys: people.map(({ external_id: key }) => key) },
      { scope: scopeOf('org_structure', scimHierarchy.key), keys: nodes.map(({ node_key: key }) => key) },
    ])
  })
  const { tenantId, assertion, label } = context
  const asker = { tenantId, assertion, runId, label, requestId }
  const none: ApplicationOutcome = { kind: 'applied', counts: { created: 0, updated: 0, unchanged: 0 } }
  const told = people.length === 0 ? none : await universe.apply({ ...asker, dataset: 'people', body: { people } })
  const placed =
    nodes.length === 0 || told.kind !== 'applied'
      ? none
      : await universe.apply({ ...asker, dataset: 'org_structure', body: { ...scimHierarchy, mode: 'partial', nodes } })
  const outcome = told.kind === 'applied' && placed.kind === 'applied' ? sum(told, placed) : failed(told, placed)
  await db.write(context, async (tx) => await finishRun(tx, runId, runOutcomeOf(outcome)))
  if (outcome.kind === 'applied') return
  const isAddress = outcome.kind === 'refused' && outcome.errors.some(({ code, pointer }) => isTaken(code, pointer))
  if (isAddress) throw notUnique('/emails', 'holds the address of another person')
  throw problemOf(outcome)
}

type Applied = Extract<ApplicationOutcome, { kind: 'applied' }>

function failed(...outcomes: readonly ApplicationOutcome[]): Exclude<ApplicationOutcome, Applied> {
  for (const outcome of outcomes) if (outcome.kind !== 'applied') return outcome
  throw new Error('one of them has failed')
}

function isTaken(code: string, pointer: string | undefined): boolean {
  return code === 'duplicate' && pointer?.endsWith('/email') === true
}

function sum(first: Applied, second: Applied): Applied {
  const { counts: a } = first
  const { counts: b } = second
  const counts = {
    created: a.created + b.created,
    updated: a.updated + b.updated,
    unchanged: a.unchanged + b.unchanged,
  }
  return { kind: 'applied', counts }
}

type Kept<T> = { readonly done: true; readonly value: T } | { readonly done: false }

async function keepUser<T>(
  parts: Parts,
  request: Request,
  plan: Plan,
  keep: (tx: Tx, user: StoredUser | undefined) => Promise<T>,
): Promise<Kept<T>> {
  const { before, after, id, personKey } = plan
  try {
    return await parts.db.write(request.context, async (tx): Promise<Kept<T>> => {
      if (after === undefined || before === undefined) {
        if (after !== undefined) await insertUser(tx, id, personKey, rowOf(after))
        else if (before !== undefined && !(await deleteUser(tx, before.id, before.version))) return { done: false }
      } else if (!isDeepStrictEqual(after.content, before.content)) {
        if (!(await updateUser(tx, id, before.version, rowOf(after)))) return { done: false }
      }
      const email = after?.facts.email
      if (email !== undefined) await takeEmail(tx, email, personKey)
      return { done: true, value: await keep(tx, after === undefined ? undefined : await findUser(tx, id)) }
    })
  } catch (error) {
    if (sqlError(error).kind !== 'unique') throw error
    await setRight(parts, request, plan)
    throw notUnique('/userName', 'or the externalId, is that of a user who was made at the same moment')
  }
}

/** Somebody else has come first, and the universe was told of this write: it is told of theirs again. */
async function setRight(parts: Parts, request: Request, { personKey, before, after }: Plan): Promise<void> {
  const { db } = parts
  const again = await db.write(request.context, async (tx) => {
    const winner = await findUserOfPerson(tx, personKey)
    const user =
      winner === undefined ? (before === undefined ? after : readUser(before.content)) : readUser(winner.content)
    if (user === undefined) return undefined
    const active = winner !== undefined || before !== undefined ? user.facts.active : false
    const people = [personOf(personKey, { ...user.facts, active })]
    const connectorId = await touchScimConnector(tx)
    const { context, requestId } = request
    return { people, runId: await startInlineRun(tx, { connectorId, fetched: 1, actor: actorOf(context), requestId }) }
  })
  if (again !== undefined) await tellUniverse(parts, request, { people: again.people, nodes: [] }, again.runId)
}

function rowOf({ content, facts }: User) {
  const { userName, externalId, email, active, unit, manager } = facts
  const { lowest: unitKey, division: divisionKey } = unitKeysOf(unit)
  return { userName, externalId, email, active, unitKey, divisionKey, manager, content }
}

export function etagOf({ version }: Pick<StoredUser, 'version'>): string {
  return `"${version}"`
}
