// A separate file, so that the console does not load the schemas.

/** In days: five years. */
export const mostKeyDays = 1825

export const maxBulkKeys = 1000
