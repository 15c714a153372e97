import { currentRowsBodySchema, internalPaths } from '@postern/contracts/internal'
import { type App, JsonText, internalRoute } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../deps.ts'
import { maxBodyBytes } from '../push/routes.ts'
import { lockTree } from '../push/store.ts'
import { lockTestProcedures } from '../push-test-procedures/store.ts'
import { type Part, readPart } from './parts.ts'
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
    async ({ body, context }): Promise<JsonText> => {
      const { dataset, keys } = body
      const part = async (read: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>): Promise<Part> => {
        if (body.in_parts === true) {
          return await readPart(
            keys,
            async (some, maxBytes) =>
              await read(async (tx) => await listCurrentRows(tx, { ...body, keys: [...some] }, maxBytes)),
          )
        }
        return { rows: await read(async (tx) => await listCurrentRows(tx, body)), reached: keys.length }
      }
      if (body.behind_pushes !== true) {
        return answerOf(await part(async (work) => await db.read(context, work)), body.in_parts)
      }
      return await db.write(context, async (tx) => {
        await (dataset === 'test_procedures' ? lockTestProcedures(tx) : lockTree(tx))
        return answerOf(await part(async (work) => await work(tx)), body.in_parts)
      })
    },
  )
}

function answerOf({ rows, reached }: Part, inParts: true | undefined): JsonText {
  return new JsonText(`{"rows":[${rows.join(',')}]${inParts === true ? `,"reached":${reached}` : ''}}`)
}
