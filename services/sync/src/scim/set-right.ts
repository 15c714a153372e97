// What the universe was told of a write that is not kept, or by two who did not know of each other, is told again as it is.
import { isDeepStrictEqual } from 'node:util'
import { type PushedNode, type PushedPerson, pushedNodeSchema, pushedPersonSchema } from '@postern/contracts'
import type { CurrentRowsAnswer, CurrentRowsBody } from '@postern/contracts/internal'
import { problem } from '@postern/service-kit'
import { touchScimConnector } from '../connector/store.ts'
import { currentParts } from '../push/current-parts.ts'
import { ServiceUnavailableError } from '@postern/service-client'
import { actorOf } from '../run/actor.ts'
import { startInlineRun } from '../run/store.ts'
import { type Unit, type User, personOf, readUser } from './content.ts'
import { type StoredUser, findUserOfPerson, listInhabited, touchUser } from './store.ts'
import { type Parts, type Request, tellUniverse } from './tell.ts'
import { keysOf, scimHierarchy, unitKeysOf } from './unit.ts'

/** How often it is looked whether somebody has written meanwhile. */
const maxRounds = 5

/** Where a user was, and where it is now, if anywhere: which of the nodes others belonged to when that was planned. */
export interface Move {
  readonly id: string
  readonly units: readonly (Unit | undefined)[]
  readonly inhabited: readonly string[]
}

/** A write that the universe was told of. */
export interface Told {
  readonly before: StoredUser | undefined
  readonly after: User | undefined
  readonly personKey: string
  /** The person that was there before a user was to be made: another source may have brought it. */
  readonly stored: PushedPerson | undefined
  /** What the universe was told of the person. */
  readonly said: readonly PushedPerson[]
  readonly units: readonly (Unit | undefined)[]
}

/** The person of this key as the universe has it. Throws a problem where the universe cannot be asked. */
export async function findPerson(
  parts: Parts,
  request: Request,
  { external_id: key }: PushedPerson,
): Promise<PushedPerson | undefined> {
  try {
    const [found] = await ask(parts, request, { dataset: 'people', keys: [key] })
    return found === undefined ? undefined : pushedPersonSchema.parse(found.row)
  } catch (error) {
    if (!(error instanceof ServiceUnavailableError)) throw error
    const detail = 'The universe cannot be asked for the person. Nothing was changed; try again.'
    throw problem('service_unavailable', { detail, retryAfterSeconds: 5, cause: error })
  }
}

/**
 * Tells the universe of a person, and of its units, as they are kept. Never throws: who has asked for the write is told why that was
 * not kept, and the log that the universe could not be told.
 */
export async function setRight(parts: Parts, request: Request, told: Told): Promise<void> {
  try {
    await setPersonRight(parts, request, told)
    await tellUnits(parts, request, keysOf(told.units[0], told.units[1]))
  } catch (error) {
    request.log.warn({ event: 'scim_not_set_right', request_id: request.requestId, err: error })
  }
}

/**
 * Tells the universe which of a user's units have anybody active in them, where others have come there, or left, since the move was
 * planned: each saw the other where it was before. Never throws: the write itself is kept.
 */
export async function settleUnits(parts: Parts, request: Request, { id, units, inhabited }: Move): Promise<void> {
  try {
    const [before, after] = units
    if (unitKeysOf(before).lowest === unitKeysOf(after).lowest) return
    const keys = keysOf(before, after)
    const others = await parts.db.read(request.context, async (tx) => await listInhabited(tx, keys, id))
    if (!isDeepStrictEqual(new Set(others), new Set(inhabited))) await tellUnits(parts, request, keys)
  } catch (error) {
    request.log.warn({ event: 'scim_not_set_right', request_id: request.requestId, err: error })
  }
}

async function setPersonRight(parts: Parts, request: Request, told: Told): Promise<void> {
  const { db } = parts
  const { personKey } = told
  const said = [...told.said]
  for (let round = 1; round <= maxRounds && said.length > 0; round += 1) {
    const find = async () => await db.read(request.context, async (tx) => await findUserOfPerson(tx, personKey))
    const winner = await find()
    const [stands] = await ask(parts, request, { dataset: 'people', keys: [personKey], behind_pushes: true })
    // It was not taken in after all, or somebody else has said something since, which stays.
    if (stands === undefined || !said.some((person) => isDeepStrictEqual(stands.row, person))) return
    const person = rightPerson(told, winner)
    if (person === undefined) return
    if (!isDeepStrictEqual(stands.row, person)) {
      await tell(parts, request, { people: [person], nodes: [] })
      said.push(person)
    }
    // Whoever has told the universe of a write of the same version before this begins anew, and tells it after this: also where
    // this had said by itself what is right, as it has said it after them.
    const isStill =
      winner === undefined
        ? (await find()) === undefined
        : await db.write(request.context, async (tx) => await touchUser(tx, winner.id, winner.version))
    if (isStill) return
  }
}

/** Whom nobody stands for is not active, but for who was there without a user. Who was never kept holds no address either. */
function rightPerson(
  { personKey, before, after, stored }: Told,
  winner: StoredUser | undefined,
): PushedPerson | undefined {
  if (winner !== undefined) return personOf(personKey, readUser(winner.content, winner.active).facts)
  if (stored?.external_id === personKey) return stored
  if (before !== undefined)
    return personOf(personKey, { ...readUser(before.content, before.active).facts, active: false })
  return after && personOf(personKey, { ...after.facts, active: false, email: undefined })
}

async function tellUnits(parts: Parts, request: Request, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return
  const { db } = parts
  const { context } = request
  for (let round = 1; round <= maxRounds; round += 1) {
    const body = { dataset: 'org_structure' as const, hierarchy: scimHierarchy.key, keys: [...keys] }
    const stored = await ask(parts, request, body)
    const inhabited = new Set(await db.read(context, async (tx) => await listInhabited(tx, keys, undefined)))
    const nodes = stored.flatMap(({ key, row }): PushedNode[] => {
      const { head, ...node } = pushedNodeSchema.parse(row)
      const status = inhabited.has(key) ? 'active' : 'inactive'
      if (node.status === status) return []
      return [{ ...node, status, ...(status === 'active' && head !== undefined ? { head } : {}) }]
    })
    if (nodes.length === 0) return
    await tell(parts, request, { people: [], nodes })
  }
}

async function ask(
  { universe }: Parts,
  { context, requestId }: Request,
  body: CurrentRowsBody,
): Promise<CurrentRowsAnswer['rows']> {
  const { tenantId, assertion, label } = context
  // By the request's id: nothing is pushed yet.
  const asker = { tenantId, assertion, runId: requestId, label, requestId }
  const rows: CurrentRowsAnswer['rows'] = []
  const parts = currentParts(body.keys, async (keys) => await universe.currentRows(asker, { ...body, keys }))
  for await (const part of parts) rows.push(...part.rows)
  return rows
}

async function tell(parts: Parts, request: Request, told: Parameters<typeof tellUniverse>[2]): Promise<void> {
  const { context, requestId } = request
  const fetched = told.people.length + told.nodes.length
  const runId = await parts.db.write(context, async (tx) => {
    const connectorId = await touchScimConnector(tx)
    return await startInlineRun(tx, { connectorId, fetched, actor: actorOf(context), requestId })
  })
  await tellUniverse(parts, request, told, runId, () => undefined)
}
