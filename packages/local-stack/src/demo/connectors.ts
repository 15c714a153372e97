import type { DemoData } from './generate.ts'
import type { Scenario } from './scenario.ts'

export interface DemoConnector {
  readonly body: { readonly key: string } & Readonly<Record<string, unknown>>
  readonly uploads: readonly string[]
  readonly isPaused: boolean
}

type Source = Pick<DemoData, 'scenario' | 'people' | 'universe'>
type Upload = Scenario['connectors'][number]['uploads'][number]

/** Uploads contain existing rows, so a run changes only what a later upload lacks. */
export function makeConnectors(source: Source): readonly DemoConnector[] {
  return source.scenario.connectors.map(({ body, uploads, isPaused }) => ({
    body,
    uploads: uploads.map((upload) => toCsv(rowsOf(upload, source))),
    isPaused,
  }))
}

export function makeScimUsers({ scenario, people }: Source): readonly object[] {
  return people.rows.slice(0, scenario.scimUsers).map(({ external_id, name, email, title, active }) => ({
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
    userName: email,
    externalId: external_id,
    displayName: name,
    title,
    emails: [{ value: email, primary: true }],
    active,
  }))
}

function rowsOf({ rows, first, unnamed }: Upload, { people, universe }: Source): readonly object[] {
  const invalid = Array.from({ length: unnamed }, (_none, index) => ({ node_key: `NEW-${index + 1}`, name: '' }))
  return [...findRows(rows, { people, universe }).slice(0, first), ...invalid]
}

function findRows(rows: string, { people, universe }: Pick<Source, 'people' | 'universe'>): readonly object[] {
  if (rows === 'people') return people.rows
  if (rows === 'open_test_procedures') return universe.testProcedures.filter(({ status }) => status !== 'completed')
  const hierarchy = universe.hierarchies.find(({ key }) => key === rows)
  if (hierarchy === undefined) throw new Error(`The scenario has no hierarchy "${rows}" to upload.`)
  return hierarchy.push.nodes
}

/** CSV (RFC 4180) with a column for each nested member (`head.name`); lists have semicolons. */
function toCsv(rows: readonly object[]): string {
  const flat = rows.map((row) => new Map(cellsOf(row)))
  const columns = [...new Set(flat.flatMap((cells) => [...cells.keys()]))]
  return [columns, ...flat.map((cells) => columns.map((column) => cells.get(column) ?? ''))]
    .map((cells) => `${cells.map(quoteCell).join(',')}\r\n`)
    .join('')
}

function cellsOf(row: object, prefix = ''): [string, string][] {
  return Object.entries(row).flatMap(([name, value]: [string, unknown]): [string, string][] => {
    if (Array.isArray(value)) return [[prefix + name, value.join(';')]]
    if (typeof value === 'object' && value !== null) return cellsOf(value, `${prefix}${name}.`)
    return value === undefined || value === null ? [] : [[prefix + name, String(value)]]
  })
}

function quoteCell(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
