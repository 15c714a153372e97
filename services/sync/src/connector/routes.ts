import { listConnectors } from '@postern/contracts'
import { type App, contractRoute, openPage } from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { countConnectors, selectConnectors } from './store.ts'

const pageKey = z.string()

/** Lists the connectors of a tenant. */
export function connectorRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, listConnectors, async (input) => {
    const { context, query } = input
    const page = openPage(input, listConnectors, pageKey)
    const [connectors, total] = await db.read(context, async (tx) =>
      Promise.all([
        selectConnectors(tx, { key: query.key, after: page.after, limit: page.limit + 1 }),
        page.wantsTotal ? countConnectors(tx, query.key) : undefined,
      ]),
    )
    if (total !== undefined) page.total(total)
    return page.finish(connectors, (connector) => connector.key)
  })
}
