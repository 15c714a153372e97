import { listMembers as listMembersRoute } from '@postern/contracts'
import { type App, contractList, openPage, wholeList } from '@postern/service-kit'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { countMembers, listMembers } from './store.ts'

const position = z.string().min(1).max(255)

/** The people of a tenant, as its administrators see them. */
export function memberRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractList(app, listMembersRoute, {
    page: async (input) => {
      const page = openPage(input, listMembersRoute, position)
      const [members, total] = await db.read(
        input.context,
        async (tx) =>
          await Promise.all([
            listMembers(tx, { after: page.after, limit: page.limit + 1 }),
            page.wantsTotal ? countMembers(tx) : undefined,
          ]),
      )
      if (total !== undefined) page.total(total)
      return page.finish(members, ({ id }) => id)
    },
    all: (input) => {
      const page = openPage(input, listMembersRoute, position)
      return wholeList(db, input.context, {
        after: page.after,
        size: exportBatch,
        list: async (tx, after, limit) => await listMembers(tx, { after, limit }),
        keyOf: ({ id }) => id,
      })
    },
  })
}

/** People that an export holds in memory at a time. */
const exportBatch = 500
