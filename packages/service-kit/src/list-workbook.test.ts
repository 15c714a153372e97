import { setImmediate } from 'node:timers/promises'
import { buffer } from 'node:stream/consumers'
import type { TableColumn } from '@postern/contracts'
import { readXlsx } from 'hucre/xlsx'
import { expect, test } from 'vitest'
import { asWorkbook } from './list-workbook.ts'

const kinds: Readonly<Record<string, TableColumn['kind']>> = { due: 'date', at: 'time' }
const columnOf = (name: string): TableColumn => ({ name, member: name, part: undefined, kind: kinds[name] })

async function* listOf(...items: readonly object[]): AsyncGenerator<object> {
  yield* items
}

async function cellsOf(item: object): Promise<readonly unknown[]> {
  const file = await buffer(asWorkbook(listOf(item), 'findings', Object.keys(item).map(columnOf)))
  const [sheet] = (await readXlsx(file)).sheets
  expect(sheet).toMatchObject({ name: 'findings', freezePane: { rows: 1 } })
  const [header, cells] = sheet?.rows ?? []
  expect(header).toEqual(Object.keys(item))
  return cells ?? []
}

test.each([
  '=1+1',
  '+1',
  '-1',
  '@x',
  '\t=1',
  '\n=1',
  ' padded ',
  '001',
  '2026-11-21',
  'a_x0041_b',
  'Köln <&> "x"',
  '#N/A',
])('the text %j stays text', async (text) => {
  expect(await cellsOf({ text })).toEqual([text])
})

test('dates are dates, and a date that Excel does not have is text', async () => {
  const values = { due: '2026-11-21', at: '2026-11-21T09:30:15.000Z' }
  expect(await cellsOf(values)).toEqual([new Date('2026-11-21T00:00:00Z'), new Date('2026-11-21T09:30:15Z')])
  expect(await cellsOf({ due: '0001-01-01', at: null, n: 1 })).toEqual(['0001-01-01', null, 1])
})

test('numbers and truth values keep their type, and other values are as in CSV', async () => {
  expect(await cellsOf({ n: 1.5, is: true, owner: { name: 'Ada' }, ids: ['a', 'b'] })).toEqual([
    1.5,
    true,
    '{"name":"Ada"}',
    'a b',
  ])
})

test('a text beyond the limit of a cell ends with an ellipsis', async () => {
  const [cell] = await cellsOf({ text: 'x'.repeat(40_000) })
  expect(cell).toBe(`${'x'.repeat(32_766)}…`)
})

test('rows are read only as fast as the workbook, and no more after it is abandoned', async () => {
  let read = 0
  let isClosed = false
  async function* endless(): AsyncGenerator<object> {
    try {
      for (;;) {
        read += 1
        yield { text: crypto.randomUUID().repeat(20) }
      }
    } finally {
      isClosed = true
    }
  }
  const workbook = asWorkbook(endless(), 'findings', [columnOf('text')])
  await new Promise((resolve) => workbook.once('readable', resolve))
  let before = -1
  while (read > before) {
    before = read
    for (let turn = 0; turn < 100; turn += 1) await setImmediate()
  }
  expect(read).toBeLessThan(20_000)
  workbook.destroy()
  await expect.poll(() => isClosed).toBe(true)
})
