import { type ReactNode, Suspense, lazy, useEffect, useRef } from 'react'
import { KeysPage } from './keys/keys-page.tsx'
import { KeysProvider } from './keys/keys-store.tsx'
import { usePath } from './router.tsx'
import { SessionGate } from './shell/session-gate.tsx'
import { Shell } from './shell/shell.tsx'
import { NotFoundPage } from './shell/not-found-page.tsx'
import { PageBoundary } from './ui/boundary.tsx'
import { focusTitle } from './ui/focus-return.ts'
import { PageSkeleton } from './ui/skeleton.tsx'

const KeyPage = lazy(async () => ({ default: (await import('./keys/key-page.tsx')).KeyPage }))
const ConnectorsPage = lazy(async () => ({
  default: (await import('./connectors/connectors-page.tsx')).ConnectorsPage,
}))
const ConnectorPage = lazy(async () => ({
  default: (await import('./connectors/connector-page.tsx')).ConnectorPage,
}))
const NewConnectorPage = lazy(async () => ({
  default: (await import('./connectors/setup/setup-pages.tsx')).NewConnectorPage,
}))
const EditConnectorPage = lazy(async () => ({
  default: (await import('./connectors/setup/setup-pages.tsx')).EditConnectorPage,
}))
const RunPage = lazy(async () => ({ default: (await import('./connectors/run-page.tsx')).RunPage }))
const HealthPage = lazy(async () => ({ default: (await import('./health/health-page.tsx')).HealthPage }))
const PeoplePage = lazy(async () => ({ default: (await import('./people/people-page.tsx')).PeoplePage }))
const PolicyPage = lazy(async () => ({ default: (await import('./policy/policy-page.tsx')).PolicyPage }))
const WebhooksPage = lazy(async () => ({ default: (await import('./webhooks/webhooks-page.tsx')).WebhooksPage }))
const AuditPage = lazy(async () => ({ default: (await import('./audit/audit-page.tsx')).AuditPage }))
const VerifyPage = lazy(async () => ({ default: (await import('./verify/verify-page.tsx')).VerifyPage }))

export function App() {
  return (
    <SessionGate>
      <KeysProvider>
        <Shell>
          <Suspense fallback={<PageSkeleton />}>
            <CurrentPage />
          </Suspense>
        </Shell>
      </KeysProvider>
    </SessionGate>
  )
}

function CurrentPage() {
  const path = usePath()
  useTitleFocus(path)
  return <PageBoundary path={path}>{pageAt(path)}</PageBoundary>
}

function pageAt(path: string): ReactNode {
  if (path === '/' || path === '/settings' || path === '/settings/api-keys') return <KeysPage />
  const keyId = /^\/settings\/api-keys\/([0-9a-f-]{36})$/.exec(path)?.[1]
  if (keyId !== undefined) return <KeyPage key={keyId} id={keyId} />
  if (path === '/connectors') return <ConnectorsPage />
  const runId = /^\/connectors\/runs\/([0-9a-f-]{36})$/.exec(path)?.[1]
  if (runId !== undefined) return <RunPage key={runId} id={runId} />
  if (path === '/connectors/new') return <NewConnectorPage />
  const [, connectorId, isChange] = /^\/connectors\/([0-9a-f-]{36})(\/change)?$/.exec(path) ?? []
  if (connectorId !== undefined) {
    return isChange === undefined ? (
      <ConnectorPage key={connectorId} id={connectorId} />
    ) : (
      <EditConnectorPage key={connectorId} id={connectorId} />
    )
  }
  if (path === '/settings/key-health') return <HealthPage />
  if (path === '/settings/people') return <PeoplePage />
  if (path === '/settings/policy') return <PolicyPage />
  if (path === '/settings/webhooks') return <WebhooksPage />
  if (path === '/settings/audit') return <AuditPage />
  if (path === '/verify') return <VerifyPage />
  return <NotFoundPage />
}

function useTitleFocus(path: string): void {
  const opened = useRef(path)
  useEffect(() => {
    if (opened.current === path) return
    opened.current = path
    focusTitle()
  }, [path])
}
