import { internalPaths, retireSourceBodySchema } from '@postern/contracts/internal'
import { type App, internalRoute, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { retireSource } from './store.ts'

export function sourceRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.retireSource,
      body: retireSourceBodySchema,
      signedBy: ['sync-universe'],
      callers: ['service'],
    },
    async ({ body, context, requestId, log }): Promise<object> => {
      const isLast = await db.write(context, async (tx) => await retireSource(tx, context.id, body))
      if (!isLast) throw problem('conflict', { detail: 'A later request of the connector was already applied.' })
      log.info({ event: 'source_retired', request_id: requestId, connector_id: context.id, retired: body.retired })
      return {}
    },
  )
}
