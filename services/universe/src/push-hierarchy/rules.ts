import { type PushedNode, maxNodeDepth } from '@postern/contracts'
import { checkNodeRow } from '@postern/contracts/internal'
import { type RowFault, toRowFaults, depthsInPush, repeatedValueFaults } from '../push/rules.ts'

export function faultsOfNodes(nodes: readonly PushedNode[]): RowFault[] {
  return [
    ...repeatedValueFaults(
      'node_key',
      nodes.map(({ node_key }) => node_key),
    ),
    ...nodes.flatMap((node, index) => toRowFaults(index, checkNodeRow(node))),
    ...chainFaults(nodes),
  ]
}

function chainFaults(nodes: readonly PushedNode[]): RowFault[] {
  const depths = depthsInPush(nodes.map(({ node_key: key, parent_key: parent }) => ({ key, parent })))
  return depths.flatMap((depth, index): RowFault[] => {
    if (depth === Infinity) return [nodeCycleFault(index)]
    return depth > maxNodeDepth ? [nodeDepthFault(index)] : []
  })
}

export function nodeCycleFault(index: number): RowFault {
  return { index, field: 'parent_key', code: 'cycle', detail: 'would put this node above itself' }
}

export function nodeDepthFault(index: number): RowFault {
  return {
    index,
    field: 'parent_key',
    code: 'too_deep',
    detail: `would make the hierarchy more than ${maxNodeDepth} levels deep`,
  }
}

export function unknownParentKeyFault(index: number, mode: 'full' | 'partial'): RowFault {
  const detail =
    mode === 'full'
      ? 'is the node_key of no row of this push, which is the whole hierarchy'
      : 'is the node_key of no node, neither stored nor in this push'
  return { index, field: 'parent_key', code: 'unknown', detail }
}

/** `place` is the index of the entity in the row's list. */
export function unknownEntityFault(index: number, place: number): RowFault {
  return { index, field: `entities/${place}`, code: 'unknown', detail: 'is the external_id of no stored entity' }
}
