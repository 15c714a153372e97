/**
 * Changes are applied by their `seq`, parents before their children: all of one depth come after all of the one before. Sources
 * have no more than five million rows, and tables ten million lines, by which their rows are numbered.
 */
export const seqsADepth = 10_000_000
