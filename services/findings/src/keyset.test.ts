import { describe, expect, test } from 'vitest'
import { keysetList } from './keyset.ts'

interface Item {
  readonly id: string
  readonly at: string
}

const list = keysetList({
  name: 'items',
  select: 'select t.id from items t',
  orders: {
    at: {
      columns: [{ column: 'at', type: 'timestamptz' }],
      direction: 'asc',
      valuesOf: ({ at }: Item) => [at],
    },
  },
})
const page = (limit: number, isFiltered = false) =>
  list.page({ sort: 'at', after: undefined, limit }, isFiltered ? [{ values: [], sql: () => 't.is_open' }] : [])

describe('the statement of a list page', () => {
  test('without a filter is the same for all limits of a size, so that PostgreSQL plans it once', () => {
    const { text, name } = page(38)
    expect([page(2), page(51)]).toMatchObject([
      { text, name },
      { text, name },
    ])
    expect(text).toMatch(/limit 51\) page limit \$3$/)
    expect(page(38).values.at(-1)).toBe(38)
    expect(page(52).text).not.toBe(text)
  })

  test('with a filter, or with a limit above the largest page, is planned for its values', () => {
    for (const statement of [page(38, true), page(5000)]) expect(statement.name).toBeUndefined()
  })
})
