import { type OpenCountsAnswer, internalPaths, openCountsBodySchema } from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { countOpenFindings } from './store.ts'

export function openCountRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.openCounts,
      body: openCountsBodySchema,
      signedBy: ['universe-findings'],
      callers: ['service'],
    },
    async ({ body, context }): Promise<OpenCountsAnswer> => ({
      counts: await db.read(context, async (tx) => countOpenFindings(tx, body.entity_ids)),
    }),
  )
}
