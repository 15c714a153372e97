import { createHash } from 'node:crypto'
import type { PushedNode } from '@postern/contracts'
import type { Unit } from './content.ts'

export const scimHierarchy = {
  key: 'scim',
  name: 'Organization as the identity provider has it',
  kind: 'management',
} as const

export interface UnitKeys {
  readonly lowest: string | undefined
  readonly division: string | undefined
}

export function unitKeysOf(unit: Unit | undefined): UnitKeys {
  const nodes = unit === undefined ? [] : nodesOf(unit, 'active')
  return {
    lowest: nodes.at(-1)?.node_key,
    division: unit?.division === undefined ? undefined : nodes[0]?.node_key,
  }
}

function nodesOf({ division, department }: Unit, status: PushedNode['status']): PushedNode[] {
  const above = division === undefined ? undefined : keyOf('division', [division])
  const nodes: PushedNode[] = []
  if (division !== undefined && above !== undefined) {
    nodes.push({ node_key: above, name: division, level_name: 'Division', status, entities: [] })
  }
  if (department !== undefined) {
    nodes.push({
      node_key: keyOf('department', [division ?? '', department]),
      ...(above === undefined ? {} : { parent_key: above }),
      name: department,
      level_name: 'Department',
      status,
      entities: [],
    })
  }
  return nodes
}

export function lowestNode(unit: Unit): PushedNode[] {
  return nodesOf(unit, 'active').slice(-1)
}

/** Hashes a key that is too long. */
function keyOf(level: string, names: readonly string[]): string {
  const key = `${level}:${names.map((name) => encodeURIComponent(name)).join('/')}`
  return key.length <= 200 ? key : `${level}:sha256:${createHash('sha256').update(key).digest('hex')}`
}

/** Returns nodes that a user creates, activates or leaves empty. `inhabited`: keys of nodes with other active users. */
export function unitChanges(
  before: Unit | undefined,
  after: Unit | undefined,
  inhabited: ReadonlySet<string>,
): PushedNode[] {
  const entered = after === undefined ? [] : nodesOf(after, 'active')
  const kept = new Set(entered.map(({ node_key }) => node_key))
  const left = before === undefined ? [] : nodesOf(before, 'inactive')
  const emptied = left.filter(({ node_key: key }) => !kept.has(key) && !inhabited.has(key))
  const isKnown = entered.every(({ node_key: key }) => inhabited.has(key) || left.some((node) => node.node_key === key))
  return [...(isKnown ? [] : entered), ...emptied]
}

export function keysOf(before: Unit | undefined, after: Unit | undefined): string[] {
  const nodes = [before, after].flatMap((unit) => (unit === undefined ? [] : nodesOf(unit, 'active')))
  return [...new Set(nodes.map(({ node_key: key }) => key))]
}
