import { getPerson, listPeople as listRoute, parseResourceAddress } from '@postern/contracts'
import {
  type IdentifiedPerson,
  type LookupPeopleAnswer,
  identifyPeopleBodySchema,
  internalPaths,
  lookupPeopleBodySchema,
} from '@postern/contracts/internal'
import { type App, type ContractInput, contractRoute, internalRoute, problem, storedList } from '@postern/service-kit'
import { findChangedFrom, findFeedMark } from '../updated-since/store.ts'
import type { Deps } from '../deps.ts'
import {
  type PersonFilter,
  countPeople,
  findPerson,
  identifyPeople,
  listPeople,
  lookUpPeople,
  personKeySchema,
} from './store.ts'

export function personRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  storedList(app, listRoute, {
    source: db,
    key: ({ query }) => personKeySchema(query.sort),
    asked: async (input) => listOf(input, await findChangedFrom(db, input.context, input.query.updated_since)),
    mark: findFeedMark,
    list: async (tx, { filter, sort }, place) => await listPeople(tx, filter, { sort, ...place }),
    count: async (tx, { filter }) => await countPeople(tx, filter),
    keyOf: ({ key }) => key,
    show: ({ person }) => person,
  })

  contractRoute(app, getPerson, async ({ params, context, answer }) => {
    const person = await db.read(context, async (tx) => findPerson(tx, parseResourceAddress(params.id)))
    if (person === undefined) throw problem('not_found')
    answer.etag(`"${person.version}"`)
    return person
  })

  const access = { method: 'POST', signedBy: ['findings-universe'], callers: ['service'] } as const
  const signedBy = ['findings-universe', 'sync-universe'] as const

  internalRoute(
    app,
    { ...access, signedBy, path: internalPaths.identifyPeople, body: identifyPeopleBodySchema },
    async ({ body: { texts }, context }): Promise<{ readonly people: readonly IdentifiedPerson[] | null }> => ({
      people: (await db.read(context, async (tx) => identifyPeople(tx, texts))) ?? null,
    }),
  )

  internalRoute(
    app,
    { ...access, path: internalPaths.lookupPeople, body: lookupPeopleBodySchema },
    async ({ body: { emails }, context }): Promise<LookupPeopleAnswer> => ({
      people: await db.read(context, async (tx) => lookUpPeople(tx, emails)),
    }),
  )
}

function listOf({ query }: ContractInput<typeof listRoute>, updatedSince: string | undefined) {
  const { sort } = query
  const filter: PersonFilter = {
    email: query.email,
    active: query.active === undefined ? undefined : query.active === 'true',
    externalId: query.external_id,
    updatedSince,
    search: query.q,
  }
  return { sort, filter }
}
