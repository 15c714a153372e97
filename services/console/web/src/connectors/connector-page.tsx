import { useCallback, useState } from 'react'
import type { PartialList } from '../api/list.ts'
import { type Connector, type Run, type TaggedConnector, changeConnector, getConnector, listRuns } from '../api/sync.ts'
import { AdminsOnly } from '../keys/admins-only.tsx'
import { navigate } from '../router.tsx'
import { useSession } from '../shell/session-gate.tsx'
import { Button } from '../ui/button.tsx'
import { ActionMenu } from '../ui/menu.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Page, BackLink } from '../ui/page.tsx'
import { Overdue } from '../ui/overdue.tsx'
import { PageSkeleton } from '../ui/skeleton.tsx'
import { useChange } from '../ui/use-change.ts'
import { type Reading, useFollowed } from '../ui/use-followed.ts'
import { useNow } from '../ui/use-now.ts'
import { When } from '../ui/when.tsx'
import { ConnectorFailure, LastRun, NextRun, StateBadge } from './connector-parts.tsx'
import { TestCard } from './connector-test.tsx'
import { RetireDialog } from './retire-dialog.tsx'
import { RunDialog } from './run-dialog.tsx'
import { RunsCard } from './runs-card.tsx'
import { scheduleInWords } from './setup/schedule.ts'
import {
  canBeRun,
  connectorsEveryMs,
  datasetNames,
  isPushed,
  authority,
  missingPolicies,
  needsFile,
  runsEveryMs,
  typeNames,
} from './words.ts'

const backLink = <BackLink to="/connectors" label="Connectors" />

export function ConnectorPage({ id }: { readonly id: string }) {
  const { session } = useSession()
  return session.roles.includes('admin') ? (
    <ConnectorDetails id={id} />
  ) : (
    <AdminsOnly title="Connector" what="connectors" />
  )
}

function ConnectorDetails({ id }: { readonly id: string }) {
  const load = useCallback(async (reading: Reading) => await getConnector(id, reading), [id])
  const { resource, reload, set } = useFollowed<TaggedConnector>(load, connectorsEveryMs)
  const runs = useRunsOf(resource.state === 'ready' ? resource.value.connector.key : undefined)
  const [open, setOpen] = useState<'run' | 'retire'>()
  const change = useChange()
  const { failure } = change
  const now = useNow()

  if (resource.state === 'loading') return <PageSkeleton />
  if (resource.state === 'failed') {
    return <ConnectorFailure error={resource.error} onRetry={reload} />
  }
  const { connector, etag } = resource.value
  const isOurs = !isPushed(connector)
  const isWaiting =
    runs.resource.state === 'ready' && runs.resource.value.items.some(({ status }) => status === 'needs_approval')
  const isPaused = connector.state === 'paused'
  const togglePause = async () => {
    await change.run(async (signal) => {
      try {
        const value = await changeConnector(id, { state: isPaused ? 'active' : 'paused' }, etag, signal)
        set({ state: 'ready', value })
      } catch (error) {
        reload()
        throw error
      }
    })
  }
  return (
    <Page
      title={connector.name}
      above={backLink}
      lead={
        <span className="key-lead">
          <code className="masked">{connector.key}</code>
          <StateBadge state={connector.state} isWaiting={isWaiting} />
        </span>
      }
      actions={
        isOurs ? (
          <>
            <Button icon="pen" onPress={() => navigate(`/connectors/${id}/change`)}>
              Change
            </Button>
            {canBeRun(connector) ? (
              <Button look="primary" icon="sync" onPress={() => setOpen('run')}>
                Run…
              </Button>
            ) : undefined}
            <ActionMenu
              label="More actions"
              actions={[
                {
                  id: 'pause',
                  label: isPaused ? 'Resume' : 'Pause',
                  icon: isPaused ? 'play' : 'pause',
                  run: () => {
                    void togglePause()
                  },
                },
                { id: 'retire', label: 'Retire…', icon: 'trash', isDangerous: true, run: () => setOpen('retire') },
              ]}
            >
              <Button look="plain" icon="dots" aria-label="More actions" />
            </ActionMenu>
          </>
        ) : undefined
      }
    >
      {failure === undefined ? undefined : (
        <Failure error={failure} title="The change was rejected" unsure="It is not known whether the change was made" />
      )}
      <Overdue change={change} mayBe="The connector may already be paused or resumed." />
      {connector.state === 'error' ? (
        <Notice tone="danger" title={`Its last ${connector.consecutive_failures} runs failed`}>
          Open the last run and correct the cause.
        </Notice>
      ) : undefined}
      <Facts connector={connector} now={now} />
      {isOurs ? <Setup connector={connector} /> : undefined}
      {isOurs ? <TestCard connector={connector} /> : undefined}
      <RunsOf runs={runs} now={now} />
      {open === 'run' ? <RunDialog connector={connector} onClose={() => setOpen(undefined)} /> : undefined}
      {open === 'retire' ? <RetireDialog connector={connector} onClose={() => setOpen(undefined)} /> : undefined}
    </Page>
  )
}

function Facts({ connector, now }: { readonly connector: Connector; readonly now: number }) {
  const { schedule, hierarchy } = connector
  return (
    <dl className="card facts facts-grid">
      <div>
        <dt>Imports</dt>
        <dd>
          {datasetNames[connector.dataset]}
          {hierarchy === null ? undefined : <span className="second-line">{hierarchy.name}</span>}
        </dd>
      </div>
      <div>
        <dt>Reads</dt>
        <dd>
          {typeNames[connector.type]}
          <span className="second-line">{placeOf(connector)}</span>
        </dd>
      </div>
      <div>
        <dt>Runs</dt>
        <dd>
          {needsFile(connector) ? 'With each upload' : scheduleInWords(schedule)}
          {schedule === null ? undefined : <span className="second-line">{schedule.time_zone}</span>}
        </dd>
      </div>
      <div>
        <dt>Next run</dt>
        <dd>
          <NextRun connector={connector} now={now} isExact />
        </dd>
      </div>
      <div>
        <dt>Last run</dt>
        <dd>
          <LastRun connector={connector} now={now} />
        </dd>
      </div>
    </dl>
  )
}

function placeOf({ config }: Connector): string {
  const { url, host, database, view } = config
  if (typeof url === 'string') return URL.canParse(url) ? new URL(url).host : url
  if (typeof host !== 'string') return ''
  return [host, database, view].filter((part) => typeof part === 'string').join(' · ')
}

function Setup({ connector }: { readonly connector: Connector }) {
  const { mapping, safety, secrets } = connector
  const names = Object.entries(secrets)
  return (
    <section className="card" aria-labelledby="setup-title">
      <h2 id="setup-title">Setup</h2>
      <dl className="rules">
        <div>
          <dt>Fields</dt>
          <dd>
            {mapping.length === 0 ? (
              <span>From columns of the same name</span>
            ) : (
              <ul className="mapped">
                {mapping.map(({ target, source, constant }) => (
                  <li key={target}>
                    <code>{target}</code>
                    <span className="faint">{source === undefined ? 'is always' : 'from'}</span>
                    <span>{source ?? String(constant)}</span>
                  </li>
                ))}
              </ul>
            )}
          </dd>
        </div>
        {names.length === 0 ? undefined : (
          <div>
            <dt>Secrets</dt>
            <dd>
              {names.map(([name, { updated_at: at }]) => (
                <span key={name}>
                  <code>{name}</code> set <When at={at} as="day" />
                </span>
              ))}
              <span className="help">Stored encrypted and never shown again.</span>
            </dd>
          </div>
        )}
        <div>
          <dt>Missing rows</dt>
          <dd>
            {missingPolicies[connector.missing_policy].title}
            <span className="help">{missingPolicies[connector.missing_policy].help}</span>
          </dd>
        </div>
        {connector.authoritative === true && (
          <div>
            <dt>Access</dt>
            <dd>
              {authority.title}
              <span className="help">{authority.help}</span>
            </dd>
          </div>
        )}
        <div>
          <dt>Waits for approval</dt>
          <dd>
            <span>
              When more than {safety.max_deactivate_pct} % or {safety.max_deactivate.toLocaleString()} rows disappear,
              more than {safety.max_change_pct} % change, or fewer than {safety.min_rows.toLocaleString()} are read.
            </span>
          </dd>
        </div>
      </dl>
    </section>
  )
}

function useRunsOf(key: string | undefined) {
  const load = useCallback(
    async (reading: Reading): Promise<PartialList<Run>> =>
      key === undefined ? { items: [], hasMore: false } : await listRuns(reading, key),
    [key],
  )
  return useFollowed(load, runsEveryMs)
}

function RunsOf({ runs, now }: { readonly runs: ReturnType<typeof useRunsOf>; readonly now: number }) {
  const { resource, reload } = runs
  if (resource.state === 'failed') {
    return <Failure error={resource.error} title="The runs cannot be shown" onRetry={reload} />
  }
  if (resource.state === 'loading' || resource.value.items.length === 0) return undefined
  return <RunsCard runs={resource.value.items} now={now} />
}
