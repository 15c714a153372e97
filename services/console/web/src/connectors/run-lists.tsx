import { useCallback, useEffect, useRef } from 'react'
import type { PartialList } from '../api/list.ts'
import { type Run, type RunChange, type RunError, listChanges, listRunErrors } from '../api/sync.ts'
import { Badge } from '../ui/badge.tsx'
import { Failure } from '../ui/notice.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { type Reading, useFollowed } from '../ui/use-followed.ts'
import { useResource } from '../ui/use-resource.ts'
import { asSentence, changeCount, isRunning, operationNames } from './words.ts'

export function RunChanges({ run }: { readonly run: Run }) {
  const load = useCallback(async (signal: AbortSignal) => await listChanges(run.id, signal), [run.id])
  const { resource, reload } = useResource<PartialList<RunChange>>(load)
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
          Only the first {resource.value.items.length}. The API has all of them: GET /api/v1/sync-runs/…/changes.
        </p>
      ) : undefined}
    </section>
  )
}

function noChanges(run: Run): string {
  if (isRunning(run)) return 'Not known yet.'
  // The universe reports only the number of changed rows.
  return run.trigger === 'push' && changeCount(run) > 0
    ? 'For pushed data, only the numbers above are stored.'
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

/** Errors can appear without a change of the run: a failed attempt is tried again. */
const readEveryMs = 5000

export function RunFaults({ run }: { readonly run: Run }) {
  const load = useCallback(async (reading: Reading) => await listRunErrors(run.id, reading), [run.id])
  const isFollowed = isRunning(run)
  const everyMs = useCallback(() => (isFollowed ? readEveryMs : undefined), [isFollowed])
  const { resource, reload } = useFollowed<PartialList<RunError>>(load, everyMs)
  const hasInvalid = run.counts.invalid > 0
  const stage = `${run.status} ${run.attempt} ${run.counts.invalid} ${run.details_cleared_at ?? ''}`
  const shownStage = useRef(stage)
  useEffect(() => {
    if (shownStage.current === stage) return
    shownStage.current = stage
    reload()
  }, [stage, reload])

  const isSilent = resource.state === 'loading' || (resource.state === 'ready' && resource.value.items.length === 0)
  if (isSilent && !hasInvalid) return undefined
  return (
    <section className="card" aria-labelledby="faults-title">
      <h2 id="faults-title">Errors and warnings</h2>
      {resource.state === 'failed' ? (
        <Failure error={resource.error} title="Errors and warnings cannot be shown" onRetry={reload} />
      ) : resource.state === 'loading' ? (
        <div className="skeleton-lines" aria-busy="true">
          <Skeleton width="55%" />
        </div>
      ) : resource.value.items.length === 0 ? (
        <p className="faint">{run.details_cleared_at === undefined ? 'None yet.' : 'They are no longer stored.'}</p>
      ) : (
        <ul className="changes">
          {resource.value.items.map((fault) => (
            <Fault key={fault.seq} fault={fault} />
          ))}
        </ul>
      )}
      {resource.state === 'ready' && resource.value.hasMore ? (
        <p className="fine-print">
          Only the first {resource.value.items.length}. The API has all of them, also as CSV: GET
          /api/v1/sync-runs/…/errors.
        </p>
      ) : undefined}
    </section>
  )
}

function Fault({ fault }: { readonly fault: RunError }) {
  const { row, source_key: key, field, message, value_excerpt: excerpt, severity } = fault
  const isWarning = severity === 'warning'
  const isOfRow = row !== null
  return (
    <li className="change">
      <div className="change-head">
        <Badge tone={isWarning ? 'warning' : 'danger'}>{isWarning ? 'Warning' : 'Error'}</Badge>
        {row === null ? undefined : <strong>Row {row}</strong>}
        {key === null ? undefined : <code>{key}</code>}
      </div>
      <p>
        {isWarning && isOfRow ? 'Imported, but please check it. ' : ''}
        {field === null ? asSentence(message) : `${field}: ${message}`}
      </p>
      {excerpt === null ? undefined : (
        <p className="second-line">
          <code>{excerpt}</code>
        </p>
      )}
    </li>
  )
}
