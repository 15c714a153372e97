import { expect, test } from 'vitest'
import { csvCell, itemSchemaOf, mediaTypesOf, workbookMediaType } from './media-types.ts'
import { routeTable } from './route-table.ts'

test('every paged list is available in five media types', () => {
  const lists = routeTable.filter(
    (route) => route.query?.shape['cursor'] !== undefined || route.id === 'findings.list-changes',
  )
  expect(lists.length).toBeGreaterThan(10)
  for (const route of routeTable) {
    expect([route.id, itemSchemaOf(route) !== undefined]).toEqual([route.id, lists.includes(route)])
    if (lists.includes(route)) {
      expect(mediaTypesOf(route)).toEqual([
        'application/json',
        'application/x-ndjson',
        'text/csv',
        workbookMediaType,
        'application/vnd.postern.page+json',
      ])
    }
  }
})

test.each([
  [null, ''],
  [undefined, ''],
  ['a, "b"', '"a, ""b"""'],
  ['two\nlines', '"two\nlines"'],
  [['a', 'b'], 'a b'],
  [[], ''],
  [[1, 2], '"[1,2]"'],
  [{ n: 1 }, '"{""n"":1}"'],
  [false, 'false'],
  [-3, '-3'],
])('%j is %j in a CSV cell', (value, cell) => {
  expect(csvCell(value)).toBe(cell)
})
