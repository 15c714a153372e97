import type { Finding, PossibleRepeat } from '@postern/contracts'

/** A closed finding about the same entity, and the beginning of its criteria. */
export interface RepeatCandidate extends Omit<PossibleRepeat, 'similarity'> {
  readonly criteria: string
}

/** Criteria that share this much are taken for the same rule. */
const likeEnough = 0.4
const mostSuggestions = 5

/** Characters of the criteria that are compared. */
export const comparedLength = 2000

/** Those of the candidates whose criteria are like the given ones, the likest first. */
export function possibleRepeats(criteria: string, candidates: readonly RepeatCandidate[]): PossibleRepeat[] {
  const wanted = trigramsOf(criteria.slice(0, comparedLength))
  return candidates
    .map(({ criteria: theirs, ...finding }) => ({ ...finding, similarity: likeness(wanted, trigramsOf(theirs)) }))
    .filter(({ similarity }) => similarity >= likeEnough)
    .toSorted((a, b) => b.similarity - a.similarity)
    .slice(0, mostSuggestions)
}

/** Shared trigrams by all trigrams, rounded to two places: 1 for the same words, in any order and case. */
function likeness(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  const shared = [...a].filter((trigram) => b.has(trigram)).length
  const all = a.size + b.size - shared
  return all === 0 ? 0 : Math.round((100 * shared) / all) / 100
}

/** The trigrams of the words, each with its beginning and its end marked. */
function trigramsOf(text: string): Set<string> {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  return new Set(
    words.flatMap((word) => {
      const marked = `  ${word} `
      return Array.from({ length: marked.length - 2 }, (_, at) => marked.slice(at, at + 3))
    }),
  )
}

const higher: Readonly<Record<Finding['severity'], Finding['severity']>> = {
  low: 'medium',
  medium: 'high',
  high: 'critical',
  critical: 'critical',
}
const ranks: Readonly<Record<Finding['severity'], number>> = { low: 1, medium: 2, high: 3, critical: 4 }

/**
 * The severity that a repeat of a finding should have: one step above that finding's. Null where the given one is as
 * high, or nothing is repeated. It is suggested, never set.
 */
export function suggestedSeverity(
  given: Finding['severity'],
  repeated: Finding['severity'] | undefined,
): Finding['severity'] | null {
  if (repeated === undefined) return null
  const raised = higher[repeated]
  return ranks[raised] > ranks[given] ? raised : null
}
