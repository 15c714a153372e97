import { getPerson, listPeople as listRoute, parseResourceAddress } from '@postern/contracts'
import { type LookupPeopleAnswer, internalPaths, lookupPeopleBodySchema } from '@postern/contracts/internal'
import {
  type App,
  type ContractInput,
  contractList,
  contractRoute,
  each,
  internalRoute,
  openPage,
  problem,
  wholeList,
} from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { type PersonFilter, countPeople, findPerson, listPeople, lookUpPeople, personKeySchema } from './store.ts'

/** Listing and reading people: whom an owner is to be looked for among. */
export function personRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractList(app, listRoute, {
    page: async (input) => {
      const { sort, filter, page } = listOf(input)
      const [rows, total] = await db.read(input.context, async (tx) =>
        Promise.all([
          listPeople(tx, filter, { sort, after: page.after, limit: page.limit + 1 }),
          page.wantsTotal ? countPeople(tx, filter) : undefined,
        ]),
      )
      if (total !== undefined) page.total(total)
      return page.finish(rows, ({ key }) => key).map(({ person }) => person)
    },
    all: (input) => {
      const { sort, filter, page } = listOf(input)
      const rows = wholeList(db, input.context, {
        after: page.after,
        size: exportBatch,
        list: async (tx, after, limit) => listPeople(tx, filter, { sort, after, limit }),
        keyOf: ({ key }) => key,
      })
      return each(rows, ({ person }) => person)
    },
  })

  contractRoute(app, getPerson, async ({ params, context, answer }) => {
    const person = await db.read(context, async (tx) => findPerson(tx, parseResourceAddress(params.id)))
    if (person === undefined) throw problem('not_found')
    answer.etag(`"${person.version}"`)
    return person
  })

  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.lookupPeople,
      body: lookupPeopleBodySchema,
      signedBy: ['findings-universe'],
      callers: ['service'],
    },
    async ({ body: { emails }, context }): Promise<LookupPeopleAnswer> => ({
      people: await db.read(context, async (tx) => lookUpPeople(tx, emails)),
    }),
  )
}

/** People that an export holds in memory at a time. */
const exportBatch = 500

function listOf(input: ContractInput<typeof listRoute>) {
  const { query } = input
  const { sort } = query
  const filter: PersonFilter = {
    email: query.email,
    active: query.active === undefined ? undefined : query.active === 'true',
    externalId: query.external_id,
    updatedSince: query.updated_since,
    search: query.q,
  }
  return { sort, filter, page: openPage(input, listRoute, personKeySchema(sort)) }
}
