import type { Entity, InputError, PushedEntity } from '@postern/contracts'
import { type RowRuleFault, checkEntityRow } from '@postern/contracts/internal'

/** How many faults an answer has at most. A run repeats the push without these rows. */
export const maxFaults = 20_000
export const maxDepth = 12

/** `field` may be followed by `/` and an index. */
export interface RowFault {
  readonly index: number
  readonly field: string
  readonly code: 'duplicate' | 'out_of_range' | 'unknown' | 'cycle' | 'too_deep' | 'invalid_transition' | 'invalid'
  readonly detail: string
}

/** Returns faults in the order of the rows. `list`: the member of the body with the rows. */
export function asInputErrors(faults: readonly RowFault[], list = 'entities'): InputError[] {
  return faults
    .toSorted((a, b) => a.index - b.index)
    .slice(0, maxFaults)
    .map(({ index, field, code, detail }) => ({ pointer: `/${list}/${index}/${field}`, code, detail }))
}

export function faultsOfPush(entities: readonly PushedEntity[]): RowFault[] {
  return [
    ...repeatedValueFaults(
      'external_id',
      entities.map(({ external_id }) => external_id),
    ),
    ...entities.flatMap((entity, index) => toRowFaults(index, checkEntityRow(entity))),
    ...chainFaults(entities),
  ]
}

/** Returns a fault for each repeated value. `say` words it, given the first row with the value. */
export function repeatedValueFaults(
  field: string,
  values: readonly (string | undefined)[],
  say = (first: number): string => `is already the ${field} of row ${first}`,
): RowFault[] {
  const firstOf = new Map<string, number>()
  return values.flatMap((value, index): RowFault[] => {
    if (value === undefined) return []
    const first = firstOf.get(value)
    if (first === undefined) {
      firstOf.set(value, index)
      return []
    }
    return [{ index, field, code: 'duplicate', detail: say(first) }]
  })
}

export function toRowFaults(index: number, faults: readonly RowRuleFault[]): RowFault[] {
  return faults.map((fault) => ({ index, ...fault }))
}

function chainFaults(entities: readonly PushedEntity[]): RowFault[] {
  const depths = depthsInPush(entities.map(({ external_id: key, parent_external_id: parent }) => ({ key, parent })))
  return depths.flatMap((depth, index): RowFault[] => {
    if (depth === Infinity) return [cycleFault(index)]
    return depth > maxDepth ? [depthFault(index)] : []
  })
}

/** Returns the depth of each row in the push; Infinity for a row in a circle or below one. */
export function depthsInPush(
  rows: readonly { readonly key: string; readonly parent: string | undefined }[],
): readonly number[] {
  const indexOf = new Map(rows.map(({ key }, index) => [key, index]))
  return depthsOf(rows.map(({ parent }) => (parent === undefined ? undefined : indexOf.get(parent))))
}

function depthsOf(parentOf: readonly (number | undefined)[]): number[] {
  const depths: (number | undefined)[] = Array.from({ length: parentOf.length }, () => undefined)
  for (let start = 0; start < parentOf.length; start += 1) {
    const walked: number[] = []
    const walking = new Set<number>()
    let at: number | undefined = start
    while (at !== undefined && depths[at] === undefined && !walking.has(at)) {
      walking.add(at)
      walked.push(at)
      at = parentOf[at]
    }
    let above = at === undefined ? 0 : (depths[at] ?? Infinity)
    for (const index of walked.toReversed()) {
      above += 1
      depths[index] = above
    }
  }
  return depths.map((depth) => depth ?? Infinity)
}

export function cycleFault(index: number): RowFault {
  return { index, field: 'parent_external_id', code: 'cycle', detail: 'would put this entity above itself' }
}

export function depthFault(index: number): RowFault {
  return {
    index,
    field: 'parent_external_id',
    code: 'too_deep',
    detail: `would make the tree more than ${maxDepth} entities deep`,
  }
}

export function unknownParentFault(index: number): RowFault {
  return {
    index,
    field: 'parent_external_id',
    code: 'unknown',
    detail: 'is the external_id of no entity, neither stored nor in this push',
  }
}

const nextStatuses: Readonly<Record<Entity['status'], readonly Entity['status'][]>> = {
  draft: ['active'],
  active: ['archived'],
  archived: ['active'],
}

/** Returns undefined if the entity can change to this status. */
export function statusFault(index: number, from: Entity['status'], to: Entity['status']): RowFault | undefined {
  if (from === to || nextStatuses[from].includes(to)) return undefined
  const allowed = [from, ...nextStatuses[from]].join(' or ')
  return { index, field: 'status', code: 'invalid_transition', detail: `must be ${allowed}: the entity is ${from} now` }
}

export function groupByOutsideParent(entities: readonly PushedEntity[]): Map<string, number[]> {
  const inside = new Set(entities.map(({ external_id }) => external_id))
  const outside = new Map<string, number[]>()
  for (const [index, { parent_external_id: key }] of entities.entries()) {
    if (key === undefined || inside.has(key)) continue
    const named = outside.get(key)
    if (named === undefined) outside.set(key, [index])
    else named.push(index)
  }
  return outside
}
