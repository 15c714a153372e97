import { uuidSchema } from '@postern/contracts'
import { type EntitySourcesAnswer, entitySourcesBodySchema, internalPaths } from '@postern/contracts/internal'
import { type App, internalRoute, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { maxBodyBytes } from '../push/routes.ts'
import { completeReading, noteSources, openTelling } from './store.ts'

/** Records, for the sync service, which entities a connector brings and which its source has lost. */
export function sourceRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.entitySources,
      body: entitySourcesBodySchema,
      maxBodyBytes,
      signedBy: ['sync-universe'],
      callers: ['service'],
    },
    async ({ body, context, requestId, log }): Promise<EntitySourcesAnswer> => {
      const connectorId = uuidSchema.safeParse(context.id).data
      if (connectorId === undefined) throw problem('bad_request', { detail: 'Only a connector is a source.' })
      const changed = await db.write(context, async (tx) => {
        const isLast = await openTelling(tx, connectorId, body)
        // From a worker that has lost its run.
        if (!isLast) throw problem('conflict', { detail: 'A later telling of the connector has come before this one.' })
        const rows = body.rows.length === 0 ? 0 : await noteSources(tx, connectorId, body.rows)
        if (body.read !== null) await completeReading(tx, connectorId, body.read)
        return rows
      })
      const { read, retired } = body
      log.info({ event: 'sources_noted', request_id: requestId, changed, complete: read !== null, retired })
      return { changed }
    },
  )
}
