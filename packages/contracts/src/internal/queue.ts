/** The schema of the job queue: pg-boss owns what is in it. */
export const queueSchema = 'queue'

/** A worker that has not been heard of for so long is taken for dead, and its job given to another. Seconds. */
export const workerSilenceSeconds = 10

/** Jobs of runs; jobs that become due by a schedule; runs whose workers have all died. */
export const queueNames = { run: 'sync-run', schedule: 'sync-schedule', lost: 'sync-run-lost' } as const

/** What each queue is made with: `postern migrate` makes them. A job that gives up on a run leads to `lost`. */
export const syncQueues = [
  {
    name: queueNames.lost,
    retryLimit: 10,
    retryDelay: 10,
    retryBackoff: true,
    expireInSeconds: 300,
    heartbeatSeconds: workerSilenceSeconds,
    deleteAfterSeconds: 86_400,
  },
  {
    name: queueNames.run,
    retryLimit: 5,
    retryDelay: 5,
    retryBackoff: true,
    retryDelayMax: 600,
    expireInSeconds: 6 * 3600,
    heartbeatSeconds: workerSilenceSeconds,
    deleteAfterSeconds: 86_400,
    deadLetter: queueNames.lost,
  },
  {
    name: queueNames.schedule,
    retryLimit: 20,
    retryDelay: 5,
    retryBackoff: true,
    retryDelayMax: 600,
    expireInSeconds: 300,
    heartbeatSeconds: workerSilenceSeconds,
    deleteAfterSeconds: 86_400,
  },
] as const
