import { listMissing as route } from '@postern/contracts'
import { type App, type ContractInput, contractList, openPage, problem } from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { callUniverse, streamUniverse } from '../import/call-universe.ts'
import { importCallerOf } from '../push/import-caller.ts'
import { findConnector } from './store.ts'

const pageKey = z.string()

export function missingRoutes(app: App, { db, universe }: Pick<Deps, 'db' | 'universe'>): void {
  const find = async ({ params, context, requestId }: ContractInput<typeof route>) => {
    const connector = await db.read(context, async (tx) => await findConnector(tx, params.id))
    if (connector === undefined) throw problem('not_found')
    return { connector, caller: importCallerOf({ context, requestId }, connector.id, connector.id) }
  }

  contractList(app, route, {
    page: async (input) => {
      const page = openPage(input, route, pageKey)
      const { connector, caller } = await find(input)
      const body = { after: page.after ?? '', limit: page.limit + 1, count: page.wantsTotal }
      const { rows, total } = await callUniverse(async () => await universe.imports.missing(caller, connector, body))
      if (total !== null) page.total(total)
      const { dataset } = connector
      return page.finish(rows, ({ source_key: key }) => key).map((row) => ({ ...row, dataset }))
    },
    all: async function* (input) {
      const page = openPage(input, route, pageKey)
      const { connector, caller } = await find(input)
      const { dataset } = connector
      for await (const row of streamUniverse(universe.imports.exportMissing(caller, connector, page.after ?? '')))
        yield { ...row, dataset }
    },
  })
}
