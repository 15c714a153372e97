// Corrects the universe after a write that was pushed and then not stored, and after concurrent writes.
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
import { type Parts, type Request, pushToUniverse } from './push-to-universe.ts'
import { keysOf, scimHierarchy, unitKeysOf } from './unit.ts'

const maxRounds = 5

export interface Move {
  readonly id: string
  readonly units: readonly (Unit | undefined)[]
  readonly inhabited: readonly string[]
}

export interface PushedWrite {
  readonly before: StoredUser | undefined
  readonly after: User | undefined
  readonly personKey: string
  /** The person before a new user was created. */
  readonly stored: PushedPerson | undefined
  readonly pushed: readonly PushedPerson[]
  readonly units: readonly (Unit | undefined)[]
}

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
    const detail = 'The universe service is unavailable, so the user was not changed. Try again.'
    throw problem('service_unavailable', { detail, retryAfterSeconds: 5, cause: error })
  }
}

/** Pushes a person and its units again as they are stored. Never throws; the log reports a failed correction. */
export async function correctUniverse(parts: Parts, request: Request, write: PushedWrite): Promise<void> {
  try {
    await correctPerson(parts, request, write)
    await pushUnits(parts, request, keysOf(write.units[0], write.units[1]))
  } catch (error) {
    request.log.warn({ event: 'scim_correction_failed', request_id: request.requestId, err: error })
  }
}

/** Pushes the units again if other users joined or left them since the write was planned. Never throws. */
export async function refreshUnits(parts: Parts, request: Request, { id, units, inhabited }: Move): Promise<void> {
  try {
    const [before, after] = units
    if (unitKeysOf(before).lowest === unitKeysOf(after).lowest) return
    const keys = keysOf(before, after)
    const others = await parts.db.read(request.context, async (tx) => await listInhabited(tx, keys, id))
    if (!isDeepStrictEqual(new Set(others), new Set(inhabited))) await pushUnits(parts, request, keys)
  } catch (error) {
    request.log.warn({ event: 'scim_correction_failed', request_id: request.requestId, err: error })
  }
}

async function correctPerson(parts: Parts, request: Request, write: PushedWrite): Promise<void> {
  const { db } = parts
  const { personKey } = write
  const pushed = [...write.pushed]
  for (let round = 1; round <= maxRounds && pushed.length > 0; round += 1) {
    const find = async () => await db.read(request.context, async (tx) => await findUserOfPerson(tx, personKey))
    const winner = await find()
    const [current] = await ask(parts, request, { dataset: 'people', keys: [personKey], behind_pushes: true })
    // The push was not applied after all, or a newer push stays.
    if (current === undefined || !pushed.some((person) => isDeepStrictEqual(current.row, person))) return
    const person = expectedPerson(write, winner)
    if (person === undefined) return
    if (!isDeepStrictEqual(current.row, person)) {
      await pushCorrection(parts, request, { people: [person], nodes: [] })
      pushed.push(person)
    }
    // A concurrent write of the same version then starts over and pushes after this one.
    const isStill =
      winner === undefined
        ? (await find()) === undefined
        : await db.write(request.context, async (tx) => await touchUser(tx, winner.id, winner.version))
    if (isStill) return
  }
}

/** A person without a user is inactive, unless it existed before. */
function expectedPerson(
  { personKey, before, after, stored }: PushedWrite,
  winner: StoredUser | undefined,
): PushedPerson | undefined {
  if (winner !== undefined) return personOf(personKey, readUser(winner.content, winner.active).facts)
  if (stored?.external_id === personKey) return stored
  if (before !== undefined)
    return personOf(personKey, { ...readUser(before.content, before.active).facts, active: false })
  return after && personOf(personKey, { ...after.facts, active: false, email: undefined })
}

async function pushUnits(parts: Parts, request: Request, keys: readonly string[]): Promise<void> {
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
    await pushCorrection(parts, request, { people: [], nodes })
  }
}

async function ask(
  { universe }: Parts,
  { context, requestId }: Request,
  body: CurrentRowsBody,
): Promise<CurrentRowsAnswer['rows']> {
  const { tenantId, assertion, label } = context
  const caller = { tenantId, assertion, runId: requestId, label, requestId }
  const rows: CurrentRowsAnswer['rows'] = []
  const parts = currentParts(body.keys, async (keys) => await universe.currentRows(caller, { ...body, keys }))
  for await (const part of parts) rows.push(...part.rows)
  return rows
}

async function pushCorrection(
  parts: Parts,
  request: Request,
  write: Parameters<typeof pushToUniverse>[2],
): Promise<void> {
  const { context, requestId } = request
  const fetched = write.people.length + write.nodes.length
  const runId = await parts.db.write(context, async (tx) => {
    const connectorId = await touchScimConnector(tx)
    return await startInlineRun(tx, { connectorId, fetched, actor: actorOf(context), requestId })
  })
  await pushToUniverse(parts, request, write, runId, () => undefined)
}
