import { listPeople as listRoute } from '@postern/contracts'
import { type App, contractRoute, openPage } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { type PersonFilter, countPeople, listPeople, personKeySchema } from './store.ts'

/** Listing people: whom an owner is to be looked for among. */
export function personRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractRoute(app, listRoute, async (input) => {
    const { query, context } = input
    const { sort } = query
    const page = openPage(input, listRoute, personKeySchema(sort))
    const filter: PersonFilter = {
      email: query.email,
      active: query.active === undefined ? undefined : query.active === 'true',
      externalId: query.external_id,
      updatedSince: query.updated_since,
      search: query.q,
    }
    const [rows, total] = await db.read(context, async (tx) =>
      Promise.all([
        listPeople(tx, filter, { sort, after: page.after, limit: page.limit + 1 }),
        page.wantsTotal ? countPeople(tx, filter) : undefined,
      ]),
    )
    if (total !== undefined) page.total(total)
    return page.finish(rows, ({ key }) => key).map(({ person }) => person)
  })
}
