import { currentRowsBodySchema, internalPaths } from '@postern/contracts/internal'
import { type App, JsonText, internalRoute } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../deps.ts'
import { maxBodyBytes } from '../push/routes.ts'
import { lockTree } from '../push/store.ts'
import { lockTestProcedures } from '../push-test-procedures/store.ts'
import { readPart } from './parts.ts'
import { listCurrentRows } from './store.ts'

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
    async ({ body, context }): Promise<JsonText> => {
      const part = async (read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>): Promise<JsonText> => {
        const { rows, reached } = await readPart(
          body.keys,
          async (keys, maxBytes) =>
            await read(async (tx) => await listCurrentRows(tx, { ...body, keys: [...keys] }, maxBytes)),
        )
        return new JsonText(`{"rows":[${rows.join(',')}],"reached":${reached}}`)
      }
      if (body.behind_pushes !== true) return await part(async (work) => await db.read(context, work))
      return await db.write(context, async (tx) => {
        await (body.dataset === 'test_procedures' ? lockTestProcedures(tx) : lockTree(tx))
        return await part(async (work) => await work(tx))
      })
    },
  )
}
