import { listMissing as route } from '@postern/contracts'
import { type App, type ContractInput, contractList, openPage, problem, wholeList } from '@postern/service-kit'
import { z } from 'zod'
import { scopeOf } from '../dataset/rules.ts'
import type { Deps } from '../deps.ts'
import { type Brought, countMissingRows, listMissingRows } from './missing-store.ts'
import { findConnector } from './store.ts'

const pageKey = z.string()

/** Rows that an export holds in memory at a time. */
const exportBatch = 500

/** What a connector has brought and its source has no longer. */
export function missingRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  const broughtBy = async ({ params, context }: ContractInput<typeof route>): Promise<Brought> => {
    const connector = await db.read(context, async (tx) => findConnector(tx, params.id))
    if (connector === undefined) throw problem('not_found')
    const { id, dataset, hierarchy } = connector
    return { connectorId: id, dataset, scope: scopeOf(dataset, hierarchy?.key) }
  }

  contractList(app, route, {
    page: async (input) => {
      const page = openPage(input, route, pageKey)
      const brought = await broughtBy(input)
      const [rows, total] = await db.read(input.context, async (tx) =>
        Promise.all([
          listMissingRows(tx, brought, page.after, page.limit + 1),
          page.wantsTotal ? countMissingRows(tx, brought) : undefined,
        ]),
      )
      if (total !== undefined) page.total(total)
      return page.finish(rows, (row) => row.source_key)
    },
    all: async function* (input) {
      const page = openPage(input, route, pageKey)
      const brought = await broughtBy(input)
      yield* wholeList(db, input.context, {
        after: page.after,
        size: exportBatch,
        list: async (tx, after, limit) => listMissingRows(tx, brought, after, limit),
        keyOf: (row) => row.source_key,
      })
    },
  })
}
