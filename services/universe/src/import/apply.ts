import {
  type Connector,
  type CreatedBy,
  type PushedEntity,
  type PushedNode,
  type PushedPerson,
  type PushedTestProcedure,
  maxPushedNodes,
} from '@postern/contracts'
import type { ApplyImportBody } from '@postern/contracts/internal'
import type { ProblemError } from '@postern/service-kit'
import { applyHierarchy } from '../push-hierarchy/routes.ts'
import { faultsOfNodes } from '../push-hierarchy/rules.ts'
import { applyPushedPeople } from '../push-people/routes.ts'
import { faultsOfPeople } from '../push-people/rules.ts'
import { applyTestProcedures } from '../push-test-procedures/routes.ts'
import { faultsOfTestProcedures } from '../push-test-procedures/rules.ts'
import { refuse } from '../push/rejection.ts'
import { applyEntities } from '../push/routes.ts'
import { faultsOfPush } from '../push/rules.ts'
import type { PlannedRow, Rejection } from './apply-store.ts'
import type { Tx } from './store.ts'

type Dataset = Connector['dataset']

/** Limits of a transaction. A hierarchy changes in one. */
export const batchLimits: Readonly<Record<Dataset, { readonly rows: number; readonly bytes: number }>> = {
  auditable_entities: { rows: 5000, bytes: 12 * 1024 * 1024 },
  people: { rows: 5000, bytes: 12 * 1024 * 1024 },
  test_procedures: { rows: 5000, bytes: 12 * 1024 * 1024 },
  org_structure: { rows: 1_000_000, bytes: 22 * 1024 * 1024 },
}
export const maxNodes = maxPushedNodes

/** Applies changes like a push. Returns how many rows were created. Throws a problem for rejected rows. */
export async function applyChanges(
  tx: Tx,
  dataset: Dataset,
  { run_id, hierarchy }: Pick<ApplyImportBody, 'run_id' | 'hierarchy'>,
  changes: readonly PlannedRow[],
  createdBy: CreatedBy,
): Promise<number> {
  switch (dataset) {
    case 'auditable_entities': {
      const entities = contentsOf<PushedEntity>(changes)
      refuse(faultsOfPush(entities))
      return (await applyEntities(tx, entities, createdBy)).created
    }
    case 'people': {
      const people = contentsOf<PushedPerson>(changes)
      refuse(faultsOfPeople(people), 'people')
      return (await applyPushedPeople(tx, people)).created
    }
    case 'test_procedures': {
      const procedures = contentsOf<PushedTestProcedure>(changes)
      refuse(faultsOfTestProcedures(procedures), 'test_procedures')
      return (await applyTestProcedures(tx, procedures, createdBy)).created
    }
    case 'org_structure': {
      if (hierarchy === undefined) throw new Error('an import of nodes names its hierarchy')
      const nodes = contentsOf<PushedNode>(changes)
      refuse(faultsOfNodes(nodes), 'nodes')
      return (await applyHierarchy(tx, { run_id, ...hierarchy, mode: 'partial', nodes }, createdBy)).created
    }
    default:
      return dataset satisfies never
  }
}

/** Returns what changes write. It was validated when it was staged. */
export function contentsOf<Content>(changes: readonly PlannedRow[]): Content[] {
  return changes.map(({ content }): Content => JSON.parse(content ?? ''))
}

/** Returns why single changes were rejected, or undefined if the error concerns all. */
export function rejectionsOf(error: ProblemError, changes: readonly PlannedRow[]): Rejection[] | undefined {
  const found = (error.options.errors ?? []).flatMap(({ pointer = '', code, detail }): Rejection[] => {
    const [, index = '', field = ''] = /^\/[a-z_]+\/([0-9]+)(?:\/(.*))?$/.exec(pointer) ?? []
    const change = index === '' ? undefined : changes[Number(index)]
    if (change === undefined) return []
    return [{ seq: change.seq, field: field === '' ? null : field.replaceAll('/', '.'), code, message: detail }]
  })
  return found.length === 0 ? undefined : found
}

/** Whether faults concern single nodes and not the shape of the hierarchy. */
export async function areOfSingleNodes(
  rejections: readonly Rejection[],
  changes: readonly PlannedRow[],
  rejected: (keys: readonly string[]) => Promise<ReadonlySet<string>>,
): Promise<boolean> {
  const nodes = contentsOf<PushedNode>(changes)
  const parentOf = new Map(changes.map(({ seq }, at) => [seq, nodes[at]?.parent_key]))
  const unknown = rejections.filter(({ code }) => code === 'unknown')
  const below = unknown.filter(({ field }) => field === 'parent_key')
  const others = unknown.filter(({ field }) => field?.startsWith('entities.'))
  if (below.length + others.length < rejections.length) return false
  const parents = below.map(({ seq }) => parentOf.get(seq) ?? '')
  const known = await rejected(parents)
  return parents.every((key) => known.has(key))
}
