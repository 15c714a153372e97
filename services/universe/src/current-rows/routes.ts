import { type CurrentRowsAnswer, currentRowsBodySchema, internalPaths } from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { lockTree } from '../push/store.ts'
import { listCurrentRows } from './store.ts'

export function currentRowRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.currentRows,
      body: currentRowsBodySchema,
      signedBy: ['sync-universe'],
      callers: ['service'],
    },
    async ({ body, context }): Promise<CurrentRowsAnswer> => {
      if (body.dataset === 'org_structure' || body.behind_pushes !== true) {
        return { rows: await db.read(context, async (tx) => await listCurrentRows(tx, body)) }
      }
      return await db.write(context, async (tx) => {
        await lockTree(tx)
        return { rows: await listCurrentRows(tx, body) }
      })
    },
  )
}
