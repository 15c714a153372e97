import type { FoundTestProcedures } from './universe.ts'

export type Judgement =
  | { readonly kind: 'open'; readonly ids: readonly string[] }
  | { readonly kind: 'unknown'; readonly places: readonly number[] }
  | { readonly kind: 'locked'; readonly places: readonly number[] }

/** Reports missing test procedures before locked ones, because the id may be a mistake. */
export function judgeTestProcedures(found: FoundTestProcedures): Judgement {
  const unknown = found.flatMap((procedure, place) => (procedure === null ? [place] : []))
  if (unknown.length > 0) return { kind: 'unknown', places: unknown }
  const locked = found.flatMap((procedure, place) => (procedure?.status === 'completed' ? [place] : []))
  if (locked.length > 0) return { kind: 'locked', places: locked }
  return { kind: 'open', ids: idsOf(found) }
}

export function selectOpenProcedures(
  addresses: readonly string[],
  found: FoundTestProcedures,
): { readonly addresses: readonly string[]; readonly ids: readonly string[] } {
  const open = found.map((procedure) => (procedure?.status === 'completed' ? null : procedure))
  return { addresses: addresses.filter((_, place) => (open[place] ?? null) !== null), ids: idsOf(open) }
}

function idsOf(found: FoundTestProcedures): string[] {
  return [...new Set(found.flatMap((procedure) => (procedure === null ? [] : [procedure.id])))]
}
