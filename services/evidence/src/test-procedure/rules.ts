import type { FoundTestProcedures } from './universe.ts'

export type Judgement =
  | { readonly kind: 'open'; readonly ids: readonly string[] }
  | { readonly kind: 'unknown'; readonly indexes: readonly number[] }
  | { readonly kind: 'locked'; readonly indexes: readonly number[] }

/** Reports missing test procedures before locked ones, because the id may be a mistake. */
export function judgeTestProcedures(found: FoundTestProcedures): Judgement {
  const unknown = found.flatMap((procedure, index) => (procedure === null ? [index] : []))
  if (unknown.length > 0) return { kind: 'unknown', indexes: unknown }
  const locked = found.flatMap((procedure, index) => (procedure?.status === 'completed' ? [index] : []))
  if (locked.length > 0) return { kind: 'locked', indexes: locked }
  return { kind: 'open', ids: idsOf(found) }
}

export function selectOpenProcedures(
  addresses: readonly string[],
  found: FoundTestProcedures,
): { readonly addresses: readonly string[]; readonly ids: readonly string[] } {
  const open = found.map((procedure) => (procedure?.status === 'completed' ? null : procedure))
  return { addresses: addresses.filter((_, index) => (open[index] ?? null) !== null), ids: idsOf(open) }
}

function idsOf(found: FoundTestProcedures): string[] {
  return [...new Set(found.flatMap((procedure) => (procedure === null ? [] : [procedure.id])))]
}
