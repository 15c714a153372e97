export const queueSchema = 'queue'

/** In seconds. Then another worker gets the job. */
export const workerSilenceSeconds = 10

export const queueNames = {
  run: 'sync-run',
  schedule: 'sync-schedule',
  lost: 'sync-run-lost',
  webhookFeed: 'webhook-feed',
  webhookSend: 'webhook-send',
  scimCorrection: 'scim-correction',
} as const

/** With a singleton key, one job at most waits and one runs. */
const oneEach = {
  policy: 'stately',
  retryLimit: 1000,
  retryDelay: 1,
  retryBackoff: true,
  retryDelayMax: 30,
  expireInSeconds: 300,
  heartbeatSeconds: workerSilenceSeconds,
  deleteAfterSeconds: 60,
} as const

/** A job that fails finally moves to `lost`. */
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
  { name: queueNames.webhookFeed, ...oneEach },
  { name: queueNames.webhookSend, ...oneEach },
  { name: queueNames.scimCorrection, ...oneEach },
] as const
