import type { DemoData } from './generate.ts'

/** A connector of a demo tenant, and the files that were uploaded to it, one after the other. */
export interface DemoConnector {
  readonly body: { readonly key: string } & Readonly<Record<string, unknown>>
  readonly uploads: readonly string[]
  readonly isPaused: boolean
}

type Source = Pick<DemoData, 'profile' | 'people' | 'universe'>
type Row = Readonly<Record<string, unknown>>

const listed = 400
const brokenRows = 7
const left = 0.39

/**
 * Connectors as a tenant has them that has used them for a while. What is uploaded to them is there already, so that nothing
 * changes. Those whose sources are elsewhere are paused: no demo has a directory, a warehouse or a service to ask.
 */
export function makeConnectors(source: Source): readonly DemoConnector[] {
  switch (source.profile.sector) {
    case 'bank':
      return bankConnectors(source)
    case 'manufacturing':
      return manufacturingConnectors(source)
    default:
      return source.profile.sector satisfies never
  }
}

/** Users whom the identity provider of a manufacturer pushes (RFC 7643): people who are there already. */
export function makeScimUsers({ profile, people }: Source): readonly Row[] {
  if (profile.sector !== 'manufacturing') return []
  return people.rows.slice(0, 5).map(({ external_id, name, email, title, active }) => ({
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
    userName: email,
    externalId: external_id,
    displayName: name,
    title,
    emails: [{ value: email, primary: true }],
    active,
  }))
}

/** One list is the same again, then most of it is gone: a run that somebody has to approve. */
function bankConnectors({ people, universe }: Source): readonly DemoConnector[] {
  const staff = people.rows.slice(0, listed)
  const open = universe.testProcedures.filter(({ status }) => status !== 'completed').slice(0, listed / 4)
  return [
    {
      body: { key: 'hr-staff', name: 'HR: staff list', type: 'csv', dataset: 'people', missing_policy: 'deactivate' },
      uploads: [tableOf(staff), tableOf(staff.slice(0, Math.round(listed * left)))],
      isPaused: false,
    },
    {
      body: {
        key: 'grc-test-procedures',
        name: 'GRC: test procedures',
        type: 'csv',
        dataset: 'test_procedures',
      },
      uploads: [tableOf(open)],
      isPaused: false,
    },
    {
      body: {
        key: 'directory-management',
        name: 'Directory: management structure',
        type: 'ldap',
        dataset: 'org_structure',
        hierarchy: { key: 'management', name: 'Management structure', kind: 'management' },
        config: {
          host: 'directory.harbourline.example',
          bind_dn: 'cn=postern,ou=services,dc=harbourline,dc=example',
          base_dn: 'ou=units,dc=harbourline,dc=example',
          filter: '(objectClass=organizationalUnit)',
        },
        mapping: [
          { target: 'node_key', source: 'key' },
          { target: 'parent_key', source: 'parent_key' },
          { target: 'name', source: 'ou' },
        ],
        schedule: { cron: '0 3 * * *', time_zone: 'Europe/London' },
      },
      uploads: [],
      isPaused: true,
    },
    {
      body: {
        key: 'warehouse-entities',
        name: 'Warehouse: auditable entities',
        type: 'sql',
        dataset: 'auditable_entities',
        config: {
          engine: 'postgres',
          host: 'warehouse.harbourline.example',
          database: 'grc',
          username: 'postern',
          view: 'auditable_entities',
        },
        schedule: { cron: '30 2 * * *', time_zone: 'Europe/London' },
      },
      uploads: [],
      isPaused: true,
    },
  ]
}

/** One list with rows that are to be mended: the run takes in the others. */
function manufacturingConnectors({ universe }: Source): readonly DemoConnector[] {
  const plants = universe.hierarchies.find(({ key }) => key === 'geography')?.push
  const broken = Array.from({ length: brokenRows }, (_none, at) => ({ node_key: `NEW-${at + 1}`, name: '' }))
  return [
    {
      body: {
        key: 'plant-list',
        name: 'MES: plants and lines',
        type: 'csv',
        dataset: 'org_structure',
        hierarchy: { key: 'geography', name: plants?.name ?? '', kind: 'geography' },
      },
      uploads: [tableOf(plants?.nodes ?? []), tableOf([...(plants?.nodes ?? []), ...broken])],
      isPaused: false,
    },
    {
      body: {
        key: 'erp-companies',
        name: 'ERP: companies',
        type: 'http_json',
        dataset: 'org_structure',
        hierarchy: { key: 'legal', name: 'Legal entities', kind: 'legal_entity' },
        config: { url: 'https://erp.korvex.example/api/companies' },
        mapping: [
          { target: 'node_key', source: 'company_code' },
          { target: 'name', source: 'company_name' },
        ],
        schedule: { cron: '30 2 * * *', time_zone: 'Europe/Berlin' },
      },
      uploads: [],
      isPaused: true,
    },
  ]
}

/** RFC 4180, with a column for each member of a member (`head.name`), and lists with semicolons. */
function tableOf(rows: readonly object[]): string {
  const flat = rows.map((row) => new Map(cellsOf(row)))
  const columns = [...new Set(flat.flatMap((cells) => [...cells.keys()]))]
  return [columns, ...flat.map((cells) => columns.map((column) => cells.get(column) ?? ''))]
    .map((cells) => `${cells.map(quoted).join(',')}\r\n`)
    .join('')
}

function cellsOf(row: object, prefix = ''): [string, string][] {
  return Object.entries(row).flatMap(([name, value]: [string, unknown]): [string, string][] => {
    if (Array.isArray(value)) return [[prefix + name, value.join(';')]]
    if (typeof value === 'object' && value !== null) return cellsOf(value, `${prefix}${name}.`)
    return value === undefined || value === null ? [] : [[prefix + name, String(value)]]
  })
}

function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
