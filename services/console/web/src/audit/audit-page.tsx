import { auditCategories } from '@postern/contracts'
import { useCallback, useEffect, useState } from 'react'
import { type AuditEvent, exportAuditEvents, listAuditEvents } from '../api/audit.ts'
import { keepQuery } from '../router.tsx'
import { useSession } from '../shell/session-gate.tsx'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { TextBox } from '../ui/fields.tsx'
import { Failure } from '../ui/notice.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { saveFile } from '../ui/save-file.ts'
import { Select } from '../ui/select.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useChange } from '../ui/use-change.ts'
import { useResource } from '../ui/use-resource.ts'
import { When } from '../ui/when.tsx'

const any = { value: '', label: 'All' } as const
const categories = [any, ...auditCategories.map((value) => ({ value, label: value.replaceAll('_', ' ') }))]
const outcomes = [any, { value: 'success', label: 'success' }, { value: 'failure', label: 'failure' }] as const
const names = ['category', 'outcome', 'actor', 'resource'] as const
type Filters = Readonly<Record<(typeof names)[number], string>>

export function AuditPage() {
  const { session } = useSession()
  const mayRead = session.roles.includes('admin') || session.roles.includes('auditor')
  if (mayRead) return <AuditEvents />
  return (
    <Page title="Audit">
      <Empty icon="shield" title="Only auditors and administrators can read the audit feed">
        Ask an administrator of your organization for the auditor role.
      </Empty>
    </Page>
  )
}

function AuditEvents() {
  const [filters, setFilters] = useState(() => readFilters(location.search))
  const query = queryOf(filters)
  useEffect(() => keepQuery(query === '' ? '' : `?${query}`), [query])
  const load = useCallback(async (signal: AbortSignal) => await listAuditEvents(query, signal), [query])
  const { resource, reload } = useResource(load)
  const exporting = useChange()
  const set = (name: keyof Filters) => (value: string) => setFilters((old) => ({ ...old, [name]: value }))
  const exportCsv = async () => {
    await exporting.run(async (signal) => saveFile(await exportAuditEvents(query, signal), 'audit-events.csv'))
  }
  return (
    <Page
      title="Audit"
      lead="Who did what in your organization, newest first."
      actions={
        <Button
          icon="file"
          isBusy={exporting.isBusy}
          onPress={() => {
            void exportCsv()
          }}
        >
          Export CSV
        </Button>
      }
    >
      {exporting.failure === undefined ? undefined : (
        <Failure error={exporting.failure} title="The events were not exported" />
      )}
      <div className="filters" role="group" aria-label="Filters">
        <Select label="Category" choices={categories} value={filters.category} onChange={set('category')} />
        <Select label="Outcome" choices={outcomes} value={filters.outcome} onChange={set('outcome')} />
        <TextBox label="Id of the actor" value={filters.actor} onChange={set('actor')} isOptional="unmarked" />
        <TextBox label="Id of the resource" value={filters.resource} onChange={set('resource')} isOptional="unmarked" />
      </div>
      <section className="card" aria-label="Events">
        {resource.state === 'failed' ? (
          <Failure error={resource.error} title="The events cannot be shown" onRetry={reload} />
        ) : resource.state === 'loading' ? (
          <div className="skeleton-lines" aria-busy="true">
            <Skeleton width="70%" />
            <Skeleton width="60%" />
          </div>
        ) : resource.value.items.length === 0 ? (
          <p className="faint">No event matches these filters.</p>
        ) : (
          <EventTable events={resource.value.items} />
        )}
        {resource.state === 'ready' && resource.value.hasMore ? (
          <p className="fine-print">The newest 100 events. The export has all of them.</p>
        ) : undefined}
      </section>
    </Page>
  )
}

function EventTable({ events }: { readonly events: readonly AuditEvent[] }) {
  return (
    <table className="plain-table stacking-table">
      <thead>
        <tr>
          <th scope="col">Action</th>
          <th scope="col">Time</th>
          <th scope="col">Actor</th>
          <th scope="col">Resource</th>
          <th scope="col">Address</th>
        </tr>
      </thead>
      <tbody>
        {events.map((event) => (
          <tr key={event.id}>
            <th scope="row">
              {event.action} {event.outcome === 'failure' ? <Badge tone="danger">failure</Badge> : undefined}
              {event.reason === null ? undefined : <span className="second-line">{event.reason}</span>}
            </th>
            <td data-title="Time">
              <When at={event.timestamp} />
            </td>
            <td data-title="Actor">
              {event.actor_name ?? event.actor_id ?? event.actor_type}
              <span className="second-line">{event.actor_type}</span>
            </td>
            <td data-title="Resource">
              {event.resource_name ?? event.resource_id ?? event.resource_type}
              <span className="second-line">{event.resource_type}</span>
            </td>
            <td data-title="Address">{event.source_ip ?? <span className="faint">Unknown</span>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function readFilters(search: string): Filters {
  const given = new URLSearchParams(search)
  const read = (name: keyof Filters): string => given.get(name) ?? ''
  return { category: read('category'), outcome: read('outcome'), actor: read('actor'), resource: read('resource') }
}

function queryOf(filters: Filters): string {
  const query = new URLSearchParams()
  for (const name of names) if (filters[name].trim() !== '') query.set(name, filters[name].trim())
  return query.toString()
}
