import { createLogger } from '@postern/service-kit'
import { expect, test } from 'vitest'
import { createPeopleLinker } from './link-people.ts'
import type { Universe } from './universe.ts'

const never = async (): Promise<never> => await Promise.reject(new Error('not asked here'))

test('all people of a bulk request are looked up, in several requests if necessary', async () => {
  const asked: number[] = []
  const universe: Universe = {
    subtree: never,
    names: never,
    unknown: never,
    identify: never,
    resolve: never,
    people: async (_request, emails) => {
      asked.push(emails.length)
      return emails.map((email) => ({ email, person_id: `id of ${email}` }))
    },
  }
  const bodies = Array.from({ length: 1_001 }, (_, n) => ({ owner: { email: `P${n}@example.org` } }))
  const context = { tenantId: 't', kind: 'api_key', id: 'k', label: 'l', scopes: [], roles: [], assertion: '' } as const
  const log = createLogger({ service: 'findings', level: 'error', write: () => undefined })
  const link = await createPeopleLinker(universe, { context, requestId: 'r', log }, bodies)
  expect(asked).toEqual([1000, 1])
  expect(bodies.map((body) => link(body).owner)).toEqual(
    bodies.map(({ owner }) => ({ ...owner, person_id: `id of ${owner.email.toLowerCase()}` })),
  )
})
