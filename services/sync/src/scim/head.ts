import { type PushedNode, uuidSchema } from '@postern/contracts'
import { type User, readUser } from './content.ts'
import type { Tx } from '@postern/tenant-db'
import { findActiveUsers } from './store.ts'
import { countManagers, listManagedUnits } from './unit-store.ts'
import { lowestNode, unitKeysOf } from './unit.ts'

interface Change {
  readonly id: string
  readonly before: User | undefined
  readonly after: User | undefined
}

/** How many units a change of their manager updates. The other units are updated when one of their users changes. */
const maxUnits = 500

/**
 * Returns `nodes` and the units that the user manages, each with its head: the manager whom most of its active users name.
 */
export async function withHeads(tx: Tx, nodes: readonly PushedNode[], change: Change): Promise<PushedNode[]> {
  const nodesByKey = new Map(nodes.map((node) => [node.node_key, node]))
  for (const node of await findAffectedNodes(tx, change))
    if (!nodesByKey.has(node.node_key)) nodesByKey.set(node.node_key, node)
  const alive = [...nodesByKey.values()].filter(({ status }) => status === 'active').map(({ node_key: key }) => key)
  const heads = await findHeads(tx, alive, change)
  return [...nodesByKey.values()].map((node) => {
    const head = heads.get(node.node_key)
    return head === undefined ? node : { ...node, head }
  })
}

async function findAffectedNodes(tx: Tx, { id, before, after }: Change): Promise<PushedNode[]> {
  const nodes: PushedNode[] = []
  const now = after?.facts.active === true ? after.facts : undefined
  const earlier = before?.facts.active === true ? before.facts : undefined
  if (now?.manager !== earlier?.manager || unitKeysOf(now?.unit).lowest !== unitKeysOf(earlier?.unit).lowest) {
    for (const facts of [now, earlier]) {
      if (facts?.unit !== undefined && facts.manager !== undefined) nodes.push(...lowestNode(facts.unit))
    }
  }
  if (now?.name !== earlier?.name || now?.email !== earlier?.email || now?.externalId !== earlier?.externalId) {
    const names = [id, now?.externalId, earlier?.externalId].filter((name) => name !== undefined)
    for (const unit of await listManagedUnits(tx, names, id, maxUnits)) nodes.push(...lowestNode(unit))
  }
  return nodes
}

async function findHeads(
  tx: Tx,
  keys: readonly string[],
  { id, after }: Change,
): Promise<Map<string, NonNullable<PushedNode['head']>>> {
  if (keys.length === 0) return new Map()
  const managerCounts = [...(await countManagers(tx, keys, id))]
  const own = after?.facts.active === true ? after.facts : undefined
  const unit = unitKeysOf(own?.unit).lowest
  if (own?.manager !== undefined && unit !== undefined) managerCounts.push({ unit, manager: own.manager, users: 1 })
  const named = [...new Set(managerCounts.map(({ manager }) => manager))]
  const ids = named.filter((name) => uuidSchema.safeParse(name).success)
  const people = new Map<string, { readonly id: string; readonly head: NonNullable<PushedNode['head']> }>()
  const add = (userId: string, { facts }: Pick<User, 'facts'>): void => {
    const { externalId, email, name } = facts
    const one = { id: userId, head: { ...(email === undefined ? {} : { email }), name } }
    if (externalId !== undefined) people.set(externalId, one)
    people.set(userId, one)
  }
  for (const user of await findActiveUsers(tx, ids, named)) if (user.id !== id) add(user.id, readUser(user.content))
  if (after !== undefined && own !== undefined) add(id, after)
  return new Map(
    keys.flatMap((key) => {
      const counts = new Map<string, number>()
      for (const { unit: at, manager, users } of managerCounts) {
        const person = at === key ? people.get(manager) : undefined
        if (person !== undefined) counts.set(person.id, (counts.get(person.id) ?? 0) + users)
      }
      const [first] = [...counts].toSorted(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
      const head = first === undefined ? undefined : people.get(first[0])?.head
      return head === undefined ? [] : [[key, head] as const]
    }),
  )
}
