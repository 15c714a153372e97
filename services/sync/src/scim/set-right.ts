// What the universe was told of a write that is not kept, or by two who did not know of each other, is told again as it is.
import { type PushedNode, pushedNodeSchema } from '@postern/contracts'
import { touchScimConnector } from '../connector/store.ts'
import { actorOf } from '../run/actor.ts'
import { startInlineRun } from '../run/store.ts'
import { type Unit, type User, personOf, readUser } from './content.ts'
import { type StoredUser, findUserOfPerson, listInhabited, touchUser } from './store.ts'
import { type Parts, type Request, tellUniverse } from './tell.ts'
import { keysOf, scimHierarchy } from './unit.ts'

/** How often it is looked whether somebody has written meanwhile. */
const maxRounds = 5

/** A write that the universe was told of. */
export interface Told {
  readonly before: StoredUser | undefined
  readonly after: User | undefined
  readonly personKey: string
  readonly units: readonly (Unit | undefined)[]
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

/** Tells the universe which of these units have anybody active in them. Never throws: the write itself is kept. */
export async function settleUnits(parts: Parts, request: Request, keys: readonly string[]): Promise<void> {
  try {
    await tellUnits(parts, request, keys)
  } catch (error) {
    request.log.warn({ event: 'scim_not_set_right', request_id: request.requestId, err: error })
  }
}

async function setPersonRight(parts: Parts, request: Request, { personKey, before, after }: Told): Promise<void> {
  const { db } = parts
  for (let round = 1; round <= maxRounds; round += 1) {
    const found = async () => await db.read(request.context, async (tx) => await findUserOfPerson(tx, personKey))
    const winner = await found()
    const user =
      winner === undefined ? (before === undefined ? after : readUser(before.content)) : readUser(winner.content)
    if (user === undefined) return
    // Whom nobody stands for is not active.
    const person = personOf(personKey, { ...user.facts, active: winner !== undefined && user.facts.active })
    await tell(parts, request, { people: [person], nodes: [] })
    // Whoever has told the universe of a write of the same version before this begins anew, and tells it after this.
    const isStill =
      winner === undefined
        ? (await found()) === undefined
        : await db.write(request.context, async (tx) => await touchUser(tx, winner.id, winner.version))
    if (isStill) return
  }
}

async function tellUnits(parts: Parts, request: Request, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return
  const { db, universe } = parts
  const { context, requestId } = request
  const { tenantId, assertion, label } = context
  for (let round = 1; round <= maxRounds; round += 1) {
    // By the request's id: nothing is pushed yet.
    const asker = { tenantId, assertion, runId: requestId, label, requestId }
    const body = { dataset: 'org_structure' as const, hierarchy: scimHierarchy.key, keys: [...keys] }
    const stored = await universe.currentRows(asker, body)
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

async function tell(parts: Parts, request: Request, told: Parameters<typeof tellUniverse>[2]): Promise<void> {
  const { context, requestId } = request
  const fetched = told.people.length + told.nodes.length
  const runId = await parts.db.write(context, async (tx) => {
    const connectorId = await touchScimConnector(tx)
    return await startInlineRun(tx, { connectorId, fetched, actor: actorOf(context), requestId })
  })
  await tellUniverse(parts, request, told, runId)
}
