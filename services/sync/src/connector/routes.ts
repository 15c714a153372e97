import { listConnectors } from '@postern/contracts'
import { type App, allPages, contractList, openPage } from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { countConnectors, selectConnectors } from './store.ts'

const pageKey = z.string()

/** Lists the connectors of a tenant. */
export function connectorRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractList(app, listConnectors, {
    page: async (input) => {
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
    },
    all: (input) => {
      const { context, query } = input
      const page = openPage(input, listConnectors, pageKey)
      return allPages(
        page.after,
        exportBatch,
        async (after, limit) =>
          await db.read(context, async (tx) => selectConnectors(tx, { key: query.key, after, limit })),
        (connector) => connector.key,
      )
    },
  })
}

/** Connectors that an export holds in memory at a time. */
const exportBatch = 500
