import { type StopImportAnswer, internalPaths, stopImportBodySchema } from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { laterAttempt } from './apply-once.ts'
import { advanceImport } from './store.ts'

/** Returns the last applied batch of a run, and rejects later batches of this attempt. */
export function importRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.stopImport,
      body: stopImportBodySchema,
      signedBy: ['sync-universe'],
      callers: ['service'],
    },
    async ({ body: { run_id, attempt }, context }): Promise<StopImportAnswer> => {
      // The next worker of the run is that attempt.
      const next = { attempt: attempt + 1, sequence: 0 }
      const sequence = await db.write(context, async (tx) => await advanceImport(tx, run_id, next))
      if (sequence === undefined) throw laterAttempt()
      return { sequence }
    },
  )
}
