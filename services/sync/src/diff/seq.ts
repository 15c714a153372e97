/**
 * Changes are applied by their `seq`, parents before their children: all of one depth come after all of the one before. Sources
 * have no more than five million rows, and tables ten million lines, by which their rows are numbered.
 */
export const seqsADepth = 10_000_000

/** What has gone comes last: no tree is nearly a hundred deep. */
export const lastDepth = 100

/** Whether a change takes back what the source has no longer. */
export function isOfLastDepth(seq: number): boolean {
  return seq >= lastDepth * seqsADepth
}

/** The row of the source that a change comes from; null for what the source has no longer. */
export function rowOf(seq: number): number | null {
  return isOfLastDepth(seq) ? null : ((seq - 1) % seqsADepth) + 1
}
