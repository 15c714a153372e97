import type { Finding, PossibleRepeat } from '@postern/contracts'

/** A closed finding, with the first `comparedLength` characters of its criteria. */
export interface RepeatCandidate extends Omit<PossibleRepeat, 'similarity'> {
  readonly criteria: string
}

const minSimilarity = 0.4
const maxSuggestions = 5

export const comparedLength = 2000

export function possibleRepeats(criteria: string, candidates: readonly RepeatCandidate[]): PossibleRepeat[] {
  const wanted = trigramsOf(criteria.slice(0, comparedLength))
  return candidates
    .map(({ criteria: theirs, ...finding }) => ({ ...finding, similarity: similarityOf(wanted, trigramsOf(theirs)) }))
    .filter(({ similarity }) => similarity >= minSimilarity)
    .toSorted((a, b) => b.similarity - a.similarity)
    .slice(0, maxSuggestions)
}

function similarityOf(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  const shared = [...a].filter((trigram) => b.has(trigram)).length
  const all = a.size + b.size - shared
  return all === 0 ? 0 : Math.round((100 * shared) / all) / 100
}

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

/** Returns null if the given severity is as high. */
export function suggestedSeverity(
  given: Finding['severity'],
  repeated: Finding['severity'] | undefined,
): Finding['severity'] | null {
  if (repeated === undefined) return null
  const raised = higher[repeated]
  return ranks[raised] > ranks[given] ? raised : null
}
