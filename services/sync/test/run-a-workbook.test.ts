import { expect, test } from 'vitest'
import { useRuns } from './run-support.ts'
import { admin } from './support.ts'
import { textCell, textRow, workbookOf } from './workbook-support.ts'

const { work, create, start, now, names, errorsOf } = useRuns()

/** A number, two texts and a date. */
function unitRow(row: number, id: number, texts: string, day: number): string {
  const [name = '', type = ''] = texts.split(',')
  const cells = [`<c r="A${row}"><v>${id}</v></c>`, textCell(`B${row}`, name), textCell(`C${row}`, type)]
  return `<row r="${row}">${cells.join('')}<c r="D${row}" s="1"><v>${day}</v></c></row>`
}

test('a connector can change from CSV to a workbook with the same table, and nothing changes', async () => {
  const tenant = admin()
  const connector = await create(tenant)
  const table = [
    ['external_id', 'name', 'type', 'last_audit_date'],
    ['1001', 'Köln', 'process', '2026-02-28'],
    ['1002', 'Treasury', 'department', '2026-03-01'],
  ]
  const first = await start(tenant, connector, `${table.map((cells) => cells.join(',')).join('\n')}\n`)
  await work(first)
  expect(await now(tenant, first)).toMatchObject({ status: 'succeeded', counts: { created: 2 } })
  const header = textRow(1, ...(table[0] ?? []))
  const rows = header + unitRow(2, 1001, 'Köln,process', 46_081) + unitRow(3, 1002, 'Treasury,department', 46_082)
  const styles = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
  const second = await start(tenant, connector, workbookOf(rows, { styles }))
  await work(second)
  expect(await now(tenant, second)).toMatchObject({
    status: 'succeeded',
    counts: { unchanged: 2, updated: 0, created: 0 },
  })
  expect(await names(tenant)).toEqual(['Köln active', 'Treasury active'])
})

test('a workbook with macros changes nothing, and the run says why', async () => {
  const tenant = admin()
  const rows = textRow(1, 'external_id', 'name', 'type') + textRow(2, '1', 'Treasury', 'process')
  const run = await start(tenant, await create(tenant), workbookOf(rows, { more: { 'xl/vbaProject.bin': 'x' } }))
  await work(run)
  expect(await now(tenant, run)).toMatchObject({
    status: 'failed',
    failure: { code: 'not_a_table', message: expect.stringContaining('without macros') },
  })
  expect(await names(tenant)).toEqual([])
})

test('an error in a cell of a workbook is an error of its row', async () => {
  const tenant = admin()
  const broken =
    '<row r="3"><c r="A3"><v>2</v></c><c r="B3" t="e"><v>#REF!</v></c><c r="C3" t="str"><f>x</f><v>process</v></c></row>'
  const rows = textRow(1, 'external_id', 'name', 'type') + textRow(2, '1', 'Treasury', 'process') + broken
  const run = await start(tenant, await create(tenant), workbookOf(rows))
  await work(run)
  expect(await names(tenant)).toEqual(['Treasury active'])
  expect(await errorsOf(tenant, run)).toMatchObject([{ row: 3, field: 'name', code: 'formula_failed' }])
})
