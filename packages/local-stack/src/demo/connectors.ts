import type { PushedPerson } from '@postern/contracts'
import type { DemoPeople } from './people.ts'

/** A connector of a demo tenant, and the files that were uploaded to it, one after the other. */
export interface DemoConnector {
  readonly body: { readonly key: string } & Readonly<Record<string, unknown>>
  readonly uploads: readonly string[]
  readonly isPaused: boolean
}

const listed = 400
const brokenRows = 7
const left = 0.39

/**
 * Connectors as a tenant has them that has used them for a while. They bring people who are there already, so that nothing
 * changes: a list that is the same again, one with rows that are to be mended, one from which most are gone, which somebody has
 * to approve; and a service that is not asked for now.
 */
export function makeConnectors({ rows }: Pick<DemoPeople, 'rows'>): readonly DemoConnector[] {
  const staff = rows.slice(0, listed)
  const broken = Array.from({ length: brokenRows }, (_none, at): PushedPerson => ({
    external_id: `NEW-${at + 1}`,
    name: '',
    email: 'not an address',
    active: true,
  }))
  return [
    {
      body: { key: 'hr-staff', name: 'HR: staff list', type: 'csv', dataset: 'people', missing_policy: 'deactivate' },
      uploads: [tableOf(staff), tableOf([...staff, ...broken]), tableOf(staff.slice(0, Math.round(listed * left)))],
      isPaused: false,
    },
    {
      body: {
        key: 'erp-vendors',
        name: 'ERP: vendors',
        type: 'http_json',
        dataset: 'auditable_entities',
        config: { url: 'https://erp.example/api/vendors' },
        schedule: { cron: '30 2 * * *', time_zone: 'Europe/Berlin' },
      },
      uploads: [],
      isPaused: true,
    },
  ]
}

const columns = ['external_id', 'name', 'email', 'title', 'active'] as const

/** RFC 4180. No value of the demo has a comma or a quote in it. */
function tableOf(rows: readonly PushedPerson[]): string {
  return [columns.join(','), ...rows.map((row) => columns.map((column) => String(row[column] ?? '')).join(','))]
    .map((line) => `${line}\r\n`)
    .join('')
}
