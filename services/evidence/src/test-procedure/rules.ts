import type { FoundTestProcedures } from './universe.ts'

/** Whether evidence can be attached to the requested test procedures. */
export type Judgement =
  /** To all; their ids, each once. */
  | { readonly kind: 'open'; readonly ids: readonly string[] }
  /** Some do not exist: their indexes in the request. */
  | { readonly kind: 'unknown'; readonly places: readonly number[] }
  /** All are there, and some are completed: their places. */
  | { readonly kind: 'locked'; readonly places: readonly number[] }

/**
 * Decides about the universe's answer. Missing test procedures come before locked ones, because the id may be a
 * mistake.
 */
export function judgeTestProcedures(found: FoundTestProcedures): Judgement {
  const unknown = found.flatMap((procedure, place) => (procedure === null ? [place] : []))
  if (unknown.length > 0) return { kind: 'unknown', places: unknown }
  const locked = found.flatMap((procedure, place) => (procedure?.status === 'completed' ? [place] : []))
  if (locked.length > 0) return { kind: 'locked', places: locked }
  return { kind: 'open', ids: idsOf(found) }
}

/** Those of a list that evidence can still be attached to. */
export function keepOpen(
  addresses: readonly string[],
  found: FoundTestProcedures,
): { readonly addresses: readonly string[]; readonly ids: readonly string[] } {
  const open = found.map((procedure) => (procedure?.status === 'completed' ? null : procedure))
  return { addresses: addresses.filter((_, place) => (open[place] ?? null) !== null), ids: idsOf(open) }
}

/** One test procedure may be named in several ways. */
function idsOf(found: FoundTestProcedures): string[] {
  return [...new Set(found.flatMap((procedure) => (procedure === null ? [] : [procedure.id])))]
}
