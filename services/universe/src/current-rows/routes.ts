import { type CurrentRowsAnswer, currentRowsBodySchema, internalPaths } from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { maxBodyBytes } from '../push/routes.ts'
import { lockTree } from '../push/store.ts'
import { lockTestProcedures } from '../push-test-procedures/store.ts'
import { listCurrentRows } from './store.ts'

/** Tells the sync service how rows stand that it is about to change, in the words of a push. */
export function currentRowRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.currentRows,
      body: currentRowsBodySchema,
      maxBodyBytes,
      signedBy: ['sync-universe'],
      callers: ['service'],
      isOurJson: true,
    },
    async ({ body, context }): Promise<CurrentRowsAnswer> => {
      if (body.behind_pushes !== true) return { rows: await db.read(context, async (tx) => listCurrentRows(tx, body)) }
      const rows = await db.write(context, async (tx) => {
        await (body.dataset === 'test_procedures' ? lockTestProcedures(tx) : lockTree(tx))
        return await listCurrentRows(tx, body)
      })
      return { rows }
    },
  )
}
