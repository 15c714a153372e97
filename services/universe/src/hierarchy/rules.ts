import {
  type HierarchyNode,
  type HierarchyNodeChange,
  type HierarchyTreeNode,
  nodeChangeFields,
} from '@postern/contracts'

/** Where a node is looked for: by its id or by the source's own key. */
export type NodeAddress = { readonly by: 'id'; readonly id: string } | { readonly by: 'key'; readonly key: string }

/** Splits an address that `nodeAddressSchema` has accepted. */
export function parseNodeAddress(address: string): NodeAddress {
  return address.startsWith('key:') ? { by: 'key', key: address.slice(4) } : { by: 'id', id: address }
}

/** Which version a reader asks for: one by its number, or the last one of a day or before. */
export type AsOf = { readonly version: number } | { readonly day: string }

/** Reads what `asOfSchema` has accepted. */
export function parseAsOf(text: string): AsOf {
  return /^\d{4}-/.test(text) ? { day: text } : { version: Number(text) }
}

/** Nests nodes that come parents first. One whose parent is not among them becomes a top. */
export function nest(nodes: readonly HierarchyNode[]): HierarchyTreeNode[] {
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

/** What has become of a node from one version to another; undefined where it reads the same. */
export function changeOf(before: HierarchyNode | null, after: HierarchyNode): HierarchyNodeChange | undefined {
  if (before === null) return { change: 'added', fields: [], before, after }
  const fields = nodeChangeFields.filter((field) => !isSame(before[field], after[field]))
  return fields.length === 0 ? undefined : { change: 'changed', fields, before, after }
}

function isSame(before: unknown, after: unknown): boolean {
  return JSON.stringify(before) === JSON.stringify(after)
}
