import { listMissing as route } from '@postern/contracts'
import { type App, type ContractInput, problem, storedList } from '@postern/service-kit'
import { z } from 'zod'
import { scopeOf } from '../dataset/rules.ts'
import type { Deps } from '../deps.ts'
import { type Brought, countMissingRows, listMissingRows } from './missing-store.ts'
import { findConnector } from './store.ts'

const pageKey = z.string()

/** Lists the rows that a connector delivered and that its source no longer has. */
export function missingRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  const broughtBy = async ({ params, context }: ContractInput<typeof route>): Promise<Brought> => {
    const connector = await db.read(context, async (tx) => findConnector(tx, params.id))
    if (connector === undefined) throw problem('not_found')
    const { id, dataset, hierarchy } = connector
    return { connectorId: id, dataset, scope: scopeOf(dataset, hierarchy?.key) }
  }

  storedList(app, route, {
    source: db,
    key: () => pageKey,
    asked: broughtBy,
    list: async (tx, brought, { after, limit }) => await listMissingRows(tx, brought, after, limit),
    count: countMissingRows,
    keyOf: (row) => row.source_key,
    show: (row) => row,
  })
}
