// Apart from the schemas: the console needs the number and must not load them.

/** The most that administrators can let a key live, in days: five years. */
export const mostKeyDays = 1825
