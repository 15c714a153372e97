// A separate file, so that the console does not load the schemas.

/** The longest lifetime that administrators can allow, in days: five years. */
export const mostKeyDays = 1825
