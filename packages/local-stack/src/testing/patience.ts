/**
 * `POSTERN_MAX_EVENT_LOOP_DELAY_MS` of what tests start: a second unless said otherwise. All tests at once take a small machine up, and
 * many services share one event loop with their test: that a process waits a second for its turn is no fault of what is tested.
 */
export const patienceMs = '10000'
