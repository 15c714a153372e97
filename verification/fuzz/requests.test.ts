import { mediaTypesOf, routeTable } from '@postern/contracts'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Draft, requestsFor } from './requests.ts'

const drafts = new Map<string, readonly Draft[]>()

/** Returns the requests that a fixed seed generates for a route. */
function draftsOf(id: string): readonly Draft[] {
  const route = routeTable.find((each) => each.id === id)
  if (route === undefined) throw new Error(`no route ${id}`)
  const known = drafts.get(id) ?? fc.sample(requestsFor(route), { numRuns: 900, seed: 7 })
  drafts.set(id, known)
  return known
}

/** Parameters with several values, with their routes. */
const filters = routeTable.flatMap((route) =>
  Object.entries(route.query?.shape ?? {})
    .filter(([, schema]) => {
      const read = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' })
      return (
        read.type === 'array' && typeof read.items === 'object' && !Array.isArray(read.items) && 'enum' in read.items
      )
    })
    .map(([name, schema]) => [`${name} of ${route.id}`, route.id, name, schema] as const),
)

describe('most generated requests have valid values:', () => {
  test('filters with several values exist', () => {
    expect(filters.length).toBeGreaterThan(10)
  })

  test.each(filters)('%s', (_title, id, name, schema) => {
    const given = draftsOf(id).flatMap(({ query }) =>
      query.filter((pair) => pair.startsWith(`${name}=`)).map((pair) => new URLSearchParams(pair).getAll(name)),
    )
    const taken = given.filter((values) => schema.safeParse(values.length === 1 ? values[0] : values).success)
    expect(given.length).toBeGreaterThan(20)
    expect(taken.length / given.length).toBeGreaterThan(0.5)
  })

  test('every format of a list is requested', () => {
    const list = routeTable.find((route) => route.id === 'findings.list')
    if (list === undefined) throw new Error('no list of findings')
    const asked = new Set(draftsOf(list.id).map(({ headers }) => headers['Accept']))
    for (const mediaType of mediaTypesOf(list)) expect(asked).toContain(mediaType)
  })
})
