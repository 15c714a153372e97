import { useState } from 'react'
import { ApiProblem } from '../api/request.ts'
import { type Run, cancelRun } from '../api/sync.ts'
import { AdminsOnly } from '../keys/admins-only.tsx'
import { navigate } from '../router.tsx'
import { useSession } from '../shell/session-gate.tsx'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icon.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Empty, Page, BackLink } from '../ui/page.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { PageSkeleton } from '../ui/skeleton.tsx'
import { useChange } from '../ui/use-change.ts'
import { When } from '../ui/when.tsx'
import { ApproveDialog } from './approve-dialog.tsx'
import { RunChanges, RunFaults } from './run-lists.tsx'
import { canBeUndone, keyOf } from './run-rules.ts'
import { useIsRetired } from './use-is-retired.ts'
import { useIsUndone } from './use-is-undone.ts'
import { useRun } from './use-run.ts'
import { UndoDialog } from './undo-dialog.tsx'
import { asSentence, describeBreach, changeCount, isRunning, modeNames, statuses } from './words.ts'

const backLink = <BackLink to="/connectors" label="Connectors" />

export function RunPage({ id }: { readonly id: string }) {
  const { session } = useSession()
  return session.roles.includes('admin') ? (
    <RunDetails key={id} id={id} />
  ) : (
    <AdminsOnly title="Run" what="connectors" />
  )
}

function RunDetails({ id }: { readonly id: string }) {
  const { resource, put, reload } = useRun(id)
  const isRetired = useIsRetired(resource.state === 'ready' ? resource.value : undefined)
  const isUndone = useIsUndone(resource.state === 'ready' ? resource.value : undefined)
  const [isApproving, setApproving] = useState(false)
  const [isUndoing, setUndoing] = useState(false)
  const change = useChange()
  const { failure, isBusy } = change

  if (resource.state === 'loading') return <PageSkeleton />
  if (resource.state === 'failed') {
    const { error } = resource
    const isNone = error instanceof ApiProblem && [400, 404].includes(error.problem.status)
    return (
      <Page title={isNone ? 'No such run' : 'Run'} above={backLink}>
        {isNone ? (
          <Empty icon="sync" title="This run does not exist in your organization" />
        ) : (
          <Failure error={error} title="The run cannot be shown" onRetry={reload} />
        )}
      </Page>
    )
  }
  const run = resource.value
  const cancel = async () => {
    await change.run(async (signal) => {
      try {
        put(await cancelRun(run.id, signal))
      } catch (error) {
        reload()
        throw error
      }
    })
  }
  const key = keyOf(run)
  const title = `${modeNames[run.mode]} of ${key ?? 'a retired connector'}`
  return (
    <Page
      title={title}
      above={backLink}
      lead={
        <span className="key-lead">
          <Badge tone={statuses[run.status].tone} hasDot>
            {statuses[run.status].label}
          </Badge>
          <span>
            <When at={run.created_at} /> by {run.created_by.label}
          </span>
          {isRetired && key !== undefined ? <span>The connector is retired.</span> : undefined}
          {isUndone ? <span>This run has been undone.</span> : undefined}
        </span>
      }
      actions={
        <>
          {isRunning(run) || run.status === 'needs_approval' ? (
            <Button
              icon="close"
              isBusy={isBusy}
              onPress={() => {
                void cancel()
              }}
            >
              Cancel the run
            </Button>
          ) : undefined}
          {canBeUndone(run) && !isRetired && !isUndone ? (
            <Button icon="rotate" onPress={() => setUndoing(true)}>
              Undo…
            </Button>
          ) : undefined}
          {run.status === 'needs_approval' ? (
            <Button look="primary" icon="check" onPress={() => setApproving(true)}>
              Approve…
            </Button>
          ) : undefined}
        </>
      }
    >
      {failure === undefined ? undefined : (
        <Failure error={failure} title="The change was rejected" unsure="It is not known whether the change was made" />
      )}
      <Overdue change={change} mayBe="The run may already be cancelled." />
      {run.failure === null ? undefined : (
        <Notice tone="danger" title="The run failed">
          {asSentence(run.failure.message)}
        </Notice>
      )}
      {run.status === 'needs_approval' ? (
        <Notice tone="warning" title="The changes need a review">
          {run.breaches.map((breach) => (
            <p key={breach.limit}>{describeBreach(breach)}</p>
          ))}
          Nothing is applied until they are approved.
        </Notice>
      ) : undefined}
      <Progress run={run} />
      {/* The approver reads this before the changes. */}
      {run.status === 'needs_approval' ? <RunFaults run={run} /> : undefined}
      <RunChanges key={`changes ${run.status}`} run={run} />
      {run.status === 'needs_approval' || run.trigger === 'push' ? undefined : <RunFaults run={run} />}
      {/* Another person may have decided meanwhile. */}
      {isUndoing ? (
        <UndoDialog
          run={run}
          onClose={() => setUndoing(false)}
          onStarted={(rollback) => navigate(`/connectors/runs/${rollback.id}`)}
        />
      ) : undefined}
      {isApproving && run.status === 'needs_approval' ? (
        <ApproveDialog
          run={run}
          onClose={() => setApproving(false)}
          onApproved={(next) => {
            setApproving(false)
            put(next)
          }}
        />
      ) : undefined}
    </Page>
  )
}

const steps = [
  { label: 'Read', status: 'fetching' },
  { label: 'Check', status: 'validating' },
  { label: 'Compare', status: 'diffing' },
  { label: 'Apply', status: 'applying' },
] as const

function stepsDone({ status, mode, counts }: Run): number {
  const at = steps.findIndex((step) => step.status === status)
  if (at !== -1) return at
  if (status === 'queued') return 0
  if (status === 'needs_approval') return 3
  if (status === 'succeeded' || status === 'partial') return mode === 'dry_run' ? 3 : 4
  return counts.fetched > 0 ? 1 : 0
}

function Progress({ run }: { readonly run: Run }) {
  const { counts } = run
  const done = stepsDone(run)
  const all = changeCount(run)
  const isPush = run.trigger === 'push'
  const shown = run.mode === 'dry_run' ? steps.slice(0, 3) : steps
  return (
    <section className="card" aria-labelledby="progress-title">
      <h2 id="progress-title">Progress</h2>
      <ol className="steps" aria-live="polite">
        {shown.map(({ label }, place) => (
          <li
            key={label}
            className={`step${place < done ? ' step-done' : ''}`}
            aria-current={place === done && isRunning(run) ? 'step' : undefined}
          >
            <span className="step-mark">
              {place < done ? <Icon name="check" size={14} /> : <span>{place + 1}</span>}
            </span>
            {label}
            {place < done ? <span className="for-listeners"> done</span> : undefined}
          </li>
        ))}
      </ol>
      {run.status === 'applying' && all > 0 ? (
        <progress className="run-bar" value={counts.applied} max={all} aria-label="Changes applied" />
      ) : undefined}
      <dl className="figures">
        <Figure label="Rows read" value={counts.fetched} />
        <Figure label="New" value={counts.created} />
        <Figure label="Changed" value={counts.updated + counts.moved} />
        {isPush ? undefined : <Figure label="Reactivated" value={counts.reactivated} />}
        <Figure label="Deactivated" value={counts.deactivated} tone={counts.deactivated > 0 ? 'danger' : undefined} />
        <Figure label="Unchanged" value={counts.unchanged} />
        <Figure label="Rejected rows" value={counts.invalid} tone={counts.invalid > 0 ? 'warning' : undefined} />
        {isPush ? undefined : (
          <Figure
            label="Gone from the source"
            value={counts.missing}
            tone={counts.missing > 0 ? 'warning' : undefined}
          />
        )}
        {isPush ? undefined : <Figure label="Applied" value={counts.applied} />}
      </dl>
    </section>
  )
}

function Figure({ label, value, tone }: { label: string; value: number; tone?: 'danger' | 'warning' | undefined }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd className={tone === undefined ? undefined : `figure-${tone}`}>{value.toLocaleString()}</dd>
    </div>
  )
}
