import { getEntity, listEntities as listRoute, parseResourceAddress } from '@postern/contracts'
import { type App, contractRoute, openPage, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { asRead, entityTag } from './rules.ts'
import { type EntityFilter, countEntities, entityKeySchema, findEntity, listEntities } from './store.ts'

/** Listing and reading auditable entities. */
export function entityRoutes(app: App, { db, now }: Pick<Deps, 'db' | 'now'>): void {
  const today = (): string => now().toISOString().slice(0, 10)

  contractRoute(app, listRoute, async (input) => {
    const { query, context } = input
    const page = openPage(input, listRoute, entityKeySchema)
    const filter: EntityFilter = {
      type: query.type,
      status: query.status,
      externalId: query.external_id,
      updatedSince: query.updated_since === undefined ? undefined : new Date(query.updated_since),
    }
    const [rows, total] = await db.read(context, async (tx) =>
      Promise.all([
        listEntities(tx, { filter, after: page.after, limit: page.limit + 1 }),
        page.wantsTotal ? countEntities(tx, filter) : undefined,
      ]),
    )
    if (total !== undefined) page.total(total)
    const day = today()
    return page.finish(rows, (row) => row.key).map((row) => asRead(row.entity, day))
  })

  contractRoute(app, getEntity, async ({ params, context, answer }) => {
    const address = parseResourceAddress(params.id)
    const stored = await db.read(context, async (tx) => findEntity(tx, address))
    if (stored === undefined) throw problem('not_found')
    const day = today()
    answer.etag(entityTag(stored.version, day))
    return asRead(stored, day)
  })
}
