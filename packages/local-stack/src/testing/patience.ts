/** On a busy machine a process may wait long for a processor. */
export const patience = { POSTERN_MAX_EVENT_LOOP_DELAY_MS: '10000' } as const

/** On a busy machine PostgreSQL may take long to accept a connection or to answer. */
export const servicePatience = {
  ...patience,
  POSTERN_DATABASE_CONNECT_TIMEOUT_MS: '20000',
  POSTERN_DATABASE_QUERY_TIMEOUT_MS: '30000',
} as const
