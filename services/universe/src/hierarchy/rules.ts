import {
  type HierarchyNode,
  type HierarchyNodeChange,
  type HierarchyTreeNode,
  nodeChangeFields,
} from '@postern/contracts'

export type NodeAddress = { readonly by: 'id'; readonly id: string } | { readonly by: 'key'; readonly key: string }

export function parseNodeAddress(address: string): NodeAddress {
  return address.startsWith('key:') ? { by: 'key', key: address.slice(4) } : { by: 'id', id: address }
}

/** A number, or the last version until the end of a day. */
export type AsOf = { readonly version: number } | { readonly day: string }

export function parseAsOf(text: string): AsOf {
  return /^\d{4}-/.test(text) ? { day: text } : { version: Number(text) }
}

/** `nodes` must have parents first. A node without its parent becomes a root. */
export function toTree(nodes: readonly HierarchyNode[]): HierarchyTreeNode[] {
  const known = new Map<string, HierarchyTreeNode>()
  const tops: HierarchyTreeNode[] = []
  for (const node of nodes) {
    const nested = { ...node, children: [] }
    known.set(node.id, nested)
    const parent = node.parent_id === null ? undefined : known.get(node.parent_id)
    ;(parent?.children ?? tops).push(nested)
  }
  return tops
}

/** Undefined if both are equal. */
export function changeOf(before: HierarchyNode | null, after: HierarchyNode): HierarchyNodeChange | undefined {
  if (before === null) return { change: 'added', fields: [], before, after }
  const fields = nodeChangeFields.filter((field) => !isSame(before[field], after[field]))
  return fields.length === 0 ? undefined : { change: 'changed', fields, before, after }
}

function isSame(before: unknown, after: unknown): boolean {
  return JSON.stringify(before) === JSON.stringify(after)
}
