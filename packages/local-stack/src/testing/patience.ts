/** `POSTERN_MAX_EVENT_LOOP_DELAY_MS` of processes in tests. On a busy machine a process may wait long for a processor. */
export const patienceMs = '10000'
