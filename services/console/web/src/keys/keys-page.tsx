import { lazy, useEffect, useMemo, useState } from 'react'
import type { ApiKey } from '@postern/contracts'
import { createAttempt } from '../api/attempt.ts'
import { isAccessDenied } from '../api/request.ts'
import { keepQuery, navigate } from '../router.tsx'
import { DialogBoundary, PageBoundary } from '../ui/boundary.tsx'
import { Button } from '../ui/button.tsx'
import { Failure, Notice } from '../ui/notice.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { useNow } from '../ui/use-now.ts'
import { timeZone } from '../ui/when.tsx'
import { AdminsOnly, useAdmin } from './admins-only.tsx'
import { type Prefill, parsePrefill } from './key-templates.ts'
import { KeyTable, KeyTableSkeleton } from './key-table.tsx'
import { useKeys } from './keys-store.tsx'
import { formatFilter, parseFilter } from './filter-url.ts'
import { useKeyPolicy } from './use-key-policy.ts'
import { SelectionBar } from './selection-bar.tsx'
import { type Filter, type Sorting, countKeys, expiringDays, isFiltering, noFilter, selectKeys } from './select-keys.ts'
import { Toolbar } from './toolbar.tsx'
import { useFindByValue } from './use-find-by-value.tsx'
import { useReloadAtExpiry } from './use-reload-at-expiry.ts'

const loadGenerate = async () => await import('./generate-dialog.tsx')
const GenerateDialog = lazy(async () => ({ default: (await loadGenerate()).GenerateDialog }))
const RevokeDialog = lazy(async () => ({ default: (await import('./revoke-dialog.tsx')).RevokeDialog }))
const BulkDialog = lazy(async () => ({ default: (await import('./bulk-dialog.tsx')).BulkDialog }))
const RotateDialog = lazy(async () => ({ default: (await import('./rotate-dialog.tsx')).RotateDialog }))

type Open =
  | { readonly kind: 'generate'; readonly prefill?: Prefill }
  | { readonly kind: 'revoke'; readonly key: ApiKey }
  | { readonly kind: 'rotate'; readonly key: ApiKey }
  | { readonly kind: 'bulk'; readonly ids: readonly string[] }

export function KeysPage() {
  const { isAdmin, wasAdmin } = useAdmin()
  return wasAdmin ? <Keys isAdmin={isAdmin} /> : <AdminsOnly title="API keys" />
}

/** Dialogs are beside the list, so that a new key stays visible if the list cannot be read. */
function Keys({ isAdmin }: { readonly isAdmin: boolean }) {
  const { error, reload, put } = useKeys()
  const [open, setOpen] = useState<Open | undefined>(() => {
    const prefill = parsePrefill(location.search)
    return prefill === undefined ? undefined : { kind: 'generate', prefill }
  })
  const [attempt] = useState(createAttempt)
  const policy = useKeyPolicy()

  useEffect(reload, [reload])
  useEffect(() => {
    const refresh = () => {
      if (document.visibilityState === 'visible') reload()
    }
    document.addEventListener('visibilitychange', refresh)
    return () => document.removeEventListener('visibilitychange', refresh)
  }, [reload])

  const close = () => setOpen(undefined)
  const isRefused = isAccessDenied(error)

  return (
    <>
      <PageBoundary>
        {isAdmin && !isRefused ? <KeysList onOpen={setOpen} /> : <AdminsOnly title="API keys" />}
      </PageBoundary>
      <DialogBoundary open={open} onClose={close}>
        {open?.kind === 'generate' ? (
          <GenerateDialog
            policy={policy}
            prefill={open.prefill}
            attempt={attempt}
            onClose={() => {
              close()
              // A request without a response may have created a key.
              if (attempt.isOpen()) reload()
            }}
            onMade={put}
          />
        ) : undefined}
        {open?.kind === 'revoke' ? <RevokeDialog apiKey={open.key} onClose={close} onRevoked={put} /> : undefined}
        {open?.kind === 'bulk' ? <BulkDialog ids={open.ids} onClose={close} onChanged={reload} /> : undefined}
        {open?.kind === 'rotate' ? (
          <RotateDialog
            apiKey={open.key}
            onClose={close}
            onRotated={(successor) => {
              put(successor)
              reload()
            }}
          />
        ) : undefined}
      </DialogBoundary>
    </>
  )
}

function KeysList({ onOpen }: { readonly onOpen: (open: Open) => void }) {
  const { keys, isLoading, error, reload, listQuery } = useKeys()
  const [{ filter, sorting }, setView] = useState(() => parseFilter(location.search))
  const setFilter = (next: Filter) => setView((view) => ({ ...view, filter: next }))
  const setSorting = (next: Sorting) => setView((view) => ({ ...view, sorting: next }))
  useEffect(() => {
    listQuery.current = formatFilter(filter, sorting)
    keepQuery(listQuery.current)
  }, [filter, sorting, listQuery])
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const byValue = useFindByValue()
  const now = useNow()
  useReloadAtExpiry(keys, now, reload)

  const { rotationDays } = useKeyPolicy()
  const shown = useMemo(
    () => selectKeys(keys ?? [], filter, sorting, now, rotationDays),
    [keys, filter, sorting, now, rotationDays],
  )
  const counts = useMemo(() => countKeys(keys ?? [], now, rotationDays), [keys, now, rotationDays])
  const generate = (
    <Button
      look="primary"
      icon="plus"
      onHoverStart={() => {
        loadGenerate().catch(() => undefined)
      }}
      onPress={() => onOpen({ kind: 'generate' })}
    >
      Generate key
    </Button>
  )
  return (
    <Page
      title="API keys"
      lead="Each key gives one program access to your audit data within its scopes. A revoked key stops working at once."
      actions={generate}
    >
      {error === undefined ? undefined : (
        <Failure
          error={error}
          title={keys === undefined ? 'The keys cannot be shown' : 'The keys could not be read again'}
          onRetry={reload}
        />
      )}
      {counts.attention > 0 ? (
        <Notice
          tone="warning"
          title={counts.attention === 1 ? 'One key needs attention' : `${counts.attention} keys need attention`}
          action={
            <Button
              size="small"
              onPress={() => setFilter(filter.needsAttention ? noFilter : { ...noFilter, needsAttention: true })}
            >
              {filter.needsAttention ? 'Show all keys' : counts.attention === 1 ? 'Show it' : 'Show them'}
            </Button>
          }
        >
          {attentionWords(counts, rotationDays)}
        </Notice>
      ) : undefined}
      {keys === undefined ? (
        error === undefined ? (
          <KeyTableSkeleton />
        ) : undefined
      ) : keys.length === 0 ? (
        <Empty icon="key" title="No keys yet" action={generate}>
          Generate a key for each program that reads findings, documents them, uploads evidence or pushes your audit
          universe. It takes less than a minute.
        </Empty>
      ) : (
        <>
          <Toolbar
            filter={filter}
            onFilter={(next) => {
              // A pasted key is searched for by the server and never becomes part of the page.
              if (!byValue.find(next.text)) setFilter(next)
            }}
            sorting={sorting}
            onSort={setSorting}
            counts={counts}
          />
          {byValue.notice}
          <p className="for-listeners" role="status">
            {isFiltering(filter) ? `${shown.length} of ${keys.length} keys` : ''}
          </p>
          {shown.length === 0 ? (
            <Empty
              icon="search"
              title="No key matches"
              action={<Button onPress={() => setFilter(noFilter)}>Clear the filters</Button>}
            >
              None of the {keys.length} keys matches these filters.
            </Empty>
          ) : (
            <>
              <SelectionBar
                shown={shown}
                selected={selected}
                onSelect={setSelected}
                onChange={(ids) => onOpen({ kind: 'bulk', ids })}
              />
              <KeyTable
                selected={selected}
                onSelect={setSelected}
                keys={shown}
                sorting={sorting}
                onSort={setSorting}
                now={now}
                rotationDays={rotationDays}
                isLoading={isLoading && keys.length % 1000 === 0}
                onOpen={(key) => navigate(`/settings/api-keys/${key.id}`)}
                onRotate={(key) => onOpen({ kind: 'rotate', key })}
                onRevoke={(key) => onOpen({ kind: 'revoke', key })}
              />
            </>
          )}
          <p className="page-foot">Times are in your zone ({timeZone}); hover over one to see it in UTC.</p>
        </>
      )}
    </Page>
  )
}

function attentionWords(
  { expiring, old }: { readonly expiring: number; readonly old: number },
  rotationDays: number,
): string {
  const soon =
    expiring === 1 ? `One expires within ${expiringDays} days` : `${expiring} expire within ${expiringDays} days`
  const aged = old === 1 ? `one is older than ${rotationDays} days` : `${old} are older than ${rotationDays} days`
  const parts = [...(expiring > 0 ? [soon] : []), ...(old > 0 ? [aged] : [])]
  const sentence = parts.join(' and ')
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}. Rotate a key to replace it without an interruption.`
}
