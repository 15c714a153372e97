/**
 * Changes are applied by their `seq`, parents before their children: all of one depth come after all of the one before. Sources
 * have no more than five million rows.
 */
export const seqsADepth = 10_000_000
