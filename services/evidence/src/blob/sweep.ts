import type { Logger } from '@postern/service-kit'
import type { Config } from '../config.ts'
import type { BlobStore } from './blob-store.ts'
import type { PartialStore } from './partial-store.ts'

export interface Sweep {
  /** Ends the sweeping, after the round in progress. */
  stop(): Promise<void>
}

/**
 * Deletes what broken uploads have left in `incoming/` and expired ones in `partial/`, and looks which tenants have leftovers
 * that their next request decides over; once before it resolves and then every `sweepEveryMs`.
 */
export async function sweepRegularly(
  {
    blobs,
    partials,
    settling,
  }: {
    readonly blobs: BlobStore
    readonly partials: PartialStore
    readonly settling: { see(tenants: ReadonlySet<string>): void }
  },
  {
    abandonedAfterMs,
    resumableForMs,
    sweepEveryMs,
  }: Pick<Config, 'abandonedAfterMs' | 'resumableForMs' | 'sweepEveryMs'>,
  { logger, now }: { readonly logger: Logger; readonly now: () => number },
): Promise<Sweep> {
  const steps = [
    async () => {
      const count = await blobs.sweepIncoming(now() - abandonedAfterMs)
      if (count > 0) logger.info({ event: 'incoming_swept', files: count })
    },
    async () => {
      // Nothing was added for longer than an upload may take as a whole: its row has expired before.
      const expired = await partials.sweep(now() - resumableForMs)
      if (expired > 0) logger.info({ event: 'partial_swept', files: expired })
    },
    async () => {
      settling.see(await blobs.listUnsettled(now() - abandonedAfterMs))
    },
  ]
  // What one step may not do, as where a role lacks a right, keeps none of the others from being done.
  const sweep = async (): Promise<void> => {
    for (const step of steps) {
      try {
        await step()
      } catch (error) {
        // A sweep that fails costs disk space, not evidence: the service goes on, and the next round tries again.
        logger.error({ event: 'sweep_failed', err: error })
      }
    }
  }
  await sweep()
  let round: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    round = round.then(sweep)
  }, sweepEveryMs)
  timer.unref()
  return {
    stop: async () => {
      clearInterval(timer)
      await round
    },
  }
}
