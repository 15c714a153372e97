// Makes the universe equal to the stored users after a push whose user was not stored, and after concurrent writes.
import { isDeepStrictEqual } from 'node:util'
import { type PushedNode, type PushedPerson, pushedNodeSchema, pushedPersonSchema } from '@postern/contracts'
import type { CurrentRowsAnswer, CurrentRowsBody } from '@postern/contracts/internal'
import { problem } from '@postern/service-kit'
import { touchScimConnector } from '../push/connector-store.ts'
import { ServiceUnavailableError } from '@postern/service-client'
import { importCallerOf } from '../push/import-caller.ts'
import { startInlineRun } from '../push/run-store.ts'
import { type Unit, personOf, readUser } from './content.ts'
import type { PendingPush } from './pending-store.ts'
import { findUserOfPerson, touchUser } from './store.ts'
import { listInhabited } from './unit-store.ts'
import { type Parts, type Sender, pushToUniverse } from './push-to-universe.ts'
import { keysOf, scimHierarchy, unitKeysOf } from './unit.ts'

const maxRounds = 5

export interface Move {
  readonly id: string
  readonly units: readonly (Unit | undefined)[]
  readonly inhabited: readonly string[]
}

/** Pushes of one person by one write. */
export interface Correction extends Pick<PendingPush, 'personKey' | 'fallback' | 'unitKeys'> {
  readonly pushed: readonly PushedPerson[]
}

export async function findPerson(
  parts: Parts,
  sender: Sender,
  { external_id: key }: PushedPerson,
): Promise<PushedPerson | undefined> {
  try {
    const [found] = await ask(parts, sender, { dataset: 'people', keys: [key] })
    return found === undefined ? undefined : pushedPersonSchema.parse(found.row)
  } catch (error) {
    if (!(error instanceof ServiceUnavailableError)) throw error
    const detail = 'The universe service is unavailable, so the user was not changed. Try again.'
    throw problem('service_unavailable', { detail, retryAfterSeconds: 5, cause: error })
  }
}

/** Pushes a person and its units again as they are stored. Rejects if the universe is unavailable. */
export async function correctUniverse(parts: Parts, sender: Sender, correction: Correction): Promise<void> {
  await correctPerson(parts, sender, correction)
  await pushUnits(parts, sender, correction.unitKeys)
}

/** Pushes the units again if other users joined or left them since the write was planned. */
export async function refreshUnits(parts: Parts, sender: Sender, { id, units, inhabited }: Move): Promise<void> {
  const [before, after] = units
  if (unitKeysOf(before).lowest === unitKeysOf(after).lowest) return
  const keys = keysOf(before, after)
  const others = await parts.db.read(sender.context, async (tx) => await listInhabited(tx, keys, id))
  if (!isDeepStrictEqual(new Set(others), new Set(inhabited))) await pushUnits(parts, sender, keys)
}

async function correctPerson(parts: Parts, sender: Sender, correction: Correction): Promise<void> {
  const { db } = parts
  const { personKey, fallback } = correction
  const pushed = [...correction.pushed]
  for (let round = 1; round <= maxRounds && pushed.length > 0; round += 1) {
    const find = async () => await db.read(sender.context, async (tx) => await findUserOfPerson(tx, personKey))
    const user = await find()
    const [current] = await ask(parts, sender, { dataset: 'people', keys: [personKey], behind_pushes: true })
    // The push was not applied after all, or a newer push stays.
    if (current === undefined || !pushed.some((person) => isDeepStrictEqual(current.row, person))) return
    const person = user === undefined ? fallback : personOf(personKey, readUser(user.content, user.active).facts)
    if (!isDeepStrictEqual(current.row, person)) {
      await pushCorrection(parts, sender, { people: [person], nodes: [] })
      pushed.push(person)
    }
    // A concurrent write of the same version then starts over and pushes after this one.
    const isStill =
      user === undefined
        ? (await find()) === undefined
        : await db.write(sender.context, async (tx) => await touchUser(tx, user.id, user.version))
    if (isStill) return
  }
}

async function pushUnits(parts: Parts, sender: Sender, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return
  for (let round = 1; round <= maxRounds; round += 1) {
    const body = { dataset: 'org_structure' as const, hierarchy: scimHierarchy.key, keys: [...keys] }
    const stored = await ask(parts, sender, body)
    const inhabited = new Set(
      await parts.db.read(sender.context, async (tx) => await listInhabited(tx, keys, undefined)),
    )
    const nodes = stored.flatMap(({ key, row }): PushedNode[] => {
      const { head, ...node } = pushedNodeSchema.parse(row)
      const status = inhabited.has(key) ? 'active' : 'inactive'
      if (node.status === status) return []
      return [{ ...node, status, ...(status === 'active' && head !== undefined ? { head } : {}) }]
    })
    if (nodes.length === 0) return
    await pushCorrection(parts, sender, { people: [], nodes })
  }
}

async function ask({ universe }: Parts, sender: Sender, body: CurrentRowsBody): Promise<CurrentRowsAnswer['rows']> {
  return (await universe.currentRows(importCallerOf(sender, sender.requestId), body)).rows
}

async function pushCorrection(
  parts: Parts,
  sender: Sender,
  write: Parameters<typeof pushToUniverse>[2],
): Promise<void> {
  const { context, requestId, actor } = sender
  const fetched = write.people.length + write.nodes.length
  const runId = await parts.db.write(context, async (tx) => {
    const connectorId = await touchScimConnector(tx)
    return await startInlineRun(tx, { connectorId, fetched, actor, requestId })
  })
  const { failure } = await pushToUniverse(parts, sender, write, { runId })
  if (failure !== undefined) throw failure
}
