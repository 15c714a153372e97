// A separate file, so that the console does not load the schemas.

/** The longest lifetime of a key in days: five years. */
export const mostKeyDays = 1825
