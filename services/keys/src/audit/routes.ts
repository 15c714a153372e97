import { listApiKeyEvents, uuidSchema } from '@postern/contracts'
import { type App, contractList, openPage, problem, wholeList } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { countEvents, hasKey, listEvents } from './store.ts'

/** The audit trail of a key, as its administrators read it. */
export function auditRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractList(app, listApiKeyEvents, {
    page: async (input) => {
      const { params, context } = input
      const page = openPage(input, listApiKeyEvents, uuidSchema)
      const [exists, events, total] = await db.read(
        context,
        async (tx) =>
          await Promise.all([
            hasKey(tx, params.id),
            listEvents(tx, params.id, { after: page.after, limit: page.limit + 1 }),
            page.wantsTotal ? countEvents(tx, params.id) : undefined,
          ]),
      )
      if (!exists) throw problem('not_found')
      if (total !== undefined) page.total(total)
      return page.finish(events, (event) => event.id)
    },
    all: async function* (input) {
      const { params, context } = input
      const page = openPage(input, listApiKeyEvents, uuidSchema)
      if (!(await db.read(context, async (tx) => hasKey(tx, params.id)))) throw problem('not_found')
      yield* wholeList(db, context, {
        after: page.after,
        size: exportBatch,
        list: async (tx, after, limit) => await listEvents(tx, params.id, { after, limit }),
        keyOf: ({ id }) => id,
      })
    },
  })
}

/** Events that an export holds in memory at a time. */
const exportBatch = 500
