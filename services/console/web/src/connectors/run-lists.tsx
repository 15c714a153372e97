import { useCallback } from 'react'
import { type Run, type RunChange, type RunError, type Some, listChanges, listRunErrors } from '../api/sync.ts'
import { Badge } from '../ui/badge.tsx'
import { Failure } from '../ui/notice.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useResource } from '../ui/use-resource.ts'
import { changeCount, isRunning, operationNames } from './words.ts'

/** What a run changes, or would: each row with what it was and what it becomes. */
export function RunChanges({ run }: { readonly run: Run }) {
  const load = useCallback(async (signal: AbortSignal) => await listChanges(run.id, signal), [run.id])
  const { resource, reload } = useResource<Some<RunChange>>(load)
  return (
    <section className="card" aria-labelledby="changes-title">
      <h2 id="changes-title">Changes</h2>
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The changes cannot be shown" onRetry={reload} />
      ) : resource.state === 'loading' ? (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="60%" />
          <Skeleton width="45%" />
        </div>
      ) : resource.value.items.length === 0 ? (
        <p className="faint">{noChanges(run)}</p>
      ) : (
        <ul className="changes">
          {resource.value.items.map((change) => (
            <Change key={change.seq} change={change} />
          ))}
        </ul>
      )}
      {resource.state === 'ready' && resource.value.hasMore ? (
        <p className="fine-print">
          The first {resource.value.items.length} of them. All are in the API: GET /api/v1/sync-runs/…/changes.
        </p>
      ) : undefined}
    </section>
  )
}

function noChanges(run: Run): string {
  if (isRunning(run)) return 'Not known yet.'
  // The universe takes a push in while its sender waits, and tells how many rows it has changed.
  return run.trigger === 'push' && changeCount(run) > 0
    ? 'Of what programs push, only the numbers above are kept.'
    : 'None.'
}

function Change({ change }: { readonly change: RunChange }) {
  const { op, source_key: key, before, after, error } = change
  const { label, tone } = operationNames[op]
  const fields = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter(
    (field) => JSON.stringify(before?.[field] ?? null) !== JSON.stringify(after?.[field] ?? null),
  )
  return (
    <li className="change">
      <div className="change-head">
        <Badge tone={tone}>{label}</Badge>
        <code>{key}</code>
      </div>
      <dl className="change-fields">
        {fields.map((field) => (
          <div key={field}>
            <dt>{field.replaceAll('_', ' ')}</dt>
            <dd>
              {before?.[field] === undefined || before[field] === null ? undefined : <del>{shown(before[field])}</del>}{' '}
              {after?.[field] === undefined || after[field] === null ? undefined : <ins>{shown(after[field])}</ins>}
            </dd>
          </div>
        ))}
      </dl>
      {error === null ? undefined : <p className="field-error">{error}</p>}
    </li>
  )
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Rows that a run could not take in, and why; and those that are doubtful. */
export function RunFaults({ run }: { readonly run: Run }) {
  const load = useCallback(async (signal: AbortSignal) => await listRunErrors(run.id, signal), [run.id])
  const { resource, reload } = useResource<Some<RunError>>(load)
  return (
    <section className="card" aria-labelledby="faults-title">
      <h2 id="faults-title">Rows that were not taken in</h2>
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="The rows cannot be shown" onRetry={reload} />
      ) : resource.state === 'loading' ? (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="55%" />
        </div>
      ) : (
        <ul className="changes">
          {resource.value.items.map((fault) => (
            <li key={fault.seq} className="change">
              <p>
                {fault.row === null ? undefined : <strong>Row {fault.row}: </strong>}
                {fault.severity === 'warning' ? 'Taken in, but look at it. ' : ''}
                {fault.field === null ? '' : `${fault.field}: `}
                {fault.message}
              </p>
              {fault.value_excerpt === null ? undefined : (
                <p className="second-line">
                  <code>{fault.value_excerpt}</code>
                </p>
              )}
            </li>
          ))}
        </ul>
      )}
      {resource.state === 'ready' && resource.value.hasMore ? (
        <p className="fine-print">
          The first {resource.value.items.length} of them. All are in the API: GET /api/v1/sync-runs/…/errors, as CSV
          too.
        </p>
      ) : undefined}
    </section>
  )
}
