import { Readable } from 'node:stream'
import {
  type ImportChanges,
  clearImportsBodySchema,
  exportImportBodySchema,
  importChangesBodySchema,
  importErrorsBodySchema,
  internalPaths,
  maxImportRows,
  missingRowsBodySchema,
} from '@postern/contracts/internal'
import { type App, StreamedAnswer, internalRoute, isTooLarge, streamList } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { countImportChanges, countMissingRows, listChanges, listErrors, listMissing } from './list-store.ts'
import { type Imports, bySync, inLongTransaction } from './requests.ts'
import { scopeOf } from './rules.ts'
import { type Tx, clearImports } from './store.ts'

const exportBatch = 500

export function importListRoutes(app: App, deps: Imports & Pick<Deps, 'db'>): void {
  const { db } = deps
  internalRoute(
    app,
    { ...bySync, path: internalPaths.importChanges, body: importChangesBodySchema },
    async ({ body, context }): Promise<ImportChanges> => {
      for (let { limit } = body; ;) {
        const most = limit
        try {
          const [changes, total] = await db.read(
            context,
            async (tx) =>
              await Promise.all([
                listChanges(tx, body.run_id, { ...body, limit: most }),
                body.count ? countImportChanges(tx, body.run_id, body.ops) : null,
              ]),
          )
          const isCut = most < body.limit && changes.length === most
          return { changes, after: isCut ? (changes.at(-1)?.seq ?? null) : null, total }
        } catch (error) {
          if (!isTooLarge(error) || most === 1) throw error
          limit = Math.floor(most / 2)
        }
      }
    },
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.importErrors, body: importErrorsBodySchema },
    async ({ body, context }) => {
      const errors = await db.read(
        context,
        async (tx) => await listErrors(tx, body.run_id, { ...body, rows: maxImportRows }),
      )
      const isLast = new Set(errors.map(({ seq }) => seq)).size < maxImportRows
      return { errors, after: isLast ? null : (errors.at(-1)?.seq ?? null) }
    },
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.missingRows, body: missingRowsBodySchema },
    async ({ body, context }) => {
      const source = { connectorId: context.id, scope: scopeOf(body.dataset, body.hierarchy) }
      return await db.read(context, async (tx) => {
        const [rows, total] = await Promise.all([
          listMissing(tx, source, body),
          body.count ? countMissingRows(tx, source) : null,
        ])
        return { rows, total }
      })
    },
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.exportImport, body: exportImportBodySchema },
    async ({ body, context }) => {
      if ('run_id' in body) {
        const changes = streamList(db, context, {
          after: body.after,
          size: exportBatch,
          list: async (tx: Tx, after = 0, limit) => await listChanges(tx, body.run_id, { ops: body.ops, after, limit }),
          keyOf: ({ seq }) => seq,
        })
        return linesOf(changes)
      }
      const source = { connectorId: context.id, scope: scopeOf(body.dataset, body.hierarchy) }
      const rows = streamList(db, context, {
        after: body.after,
        size: exportBatch,
        list: async (tx: Tx, after = '', limit) => await listMissing(tx, source, { after, limit }),
        keyOf: ({ source_key: key }) => key,
      })
      return linesOf(rows)
    },
  )

  internalRoute(
    app,
    { ...bySync, path: internalPaths.clearImports, body: clearImportsBodySchema },
    inLongTransaction(deps, async (tx, { body }) => {
      return { more: await clearImports(tx, body.run_ids, body.changes) }
    }),
  )
}

function linesOf(items: AsyncIterable<object>): StreamedAnswer {
  return new StreamedAnswer('application/x-ndjson', Readable.from(asLines(items), { objectMode: false }))
}

async function* asLines(items: AsyncIterable<object>): AsyncGenerator<string> {
  for await (const item of items) yield `${JSON.stringify(item)}\n`
}
