// A separate file, so that the console does not load the schemas.

/** In days: five years. */
export const mostKeyDays = 1825

export const maxBulkKeys = 1000

/** In days: for how long a policy can keep audit events. */
export const auditRetention = { min: 90, max: 3650 } as const
