import { type CSSProperties, useMemo, useRef } from 'react'
import { Checkbox } from 'react-aria-components/Checkbox'
import type { ApiKey } from '@postern/contracts'
import { Link } from '../router.tsx'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icon.tsx'
import { ActionMenu } from '../ui/menu.tsx'
import { OverdueReading } from '../ui/overdue.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { KeyAge, KeyEnd, LastUse, ScopeList, StateBadge } from './key-parts.tsx'
import { useKeys } from './keys-store.tsx'
import { type Column, type Sorting, attentionOf, canChange, rotatedIds } from './select-keys.ts'
import { useVirtualRows } from './use-virtual-rows.ts'

export interface KeyActions {
  readonly onRotate: (key: ApiKey) => void
  readonly onRevoke: (key: ApiKey) => void
  readonly onOpen: (key: ApiKey) => void
}

interface Props extends KeyActions {
  readonly selected: ReadonlySet<string>
  readonly onSelect: (selected: ReadonlySet<string>) => void
  readonly keys: readonly ApiKey[]
  readonly sorting: Sorting
  readonly onSort: (sorting: Sorting) => void
  readonly now: number
  /** Of the key policy. */
  readonly rotationDays: number
  readonly isLoading: boolean
}

const headers: readonly { readonly column?: Column; readonly label: string }[] = [
  { column: 'label', label: 'Label' },
  { label: 'Key' },
  { label: 'Scopes' },
  { column: 'state', label: 'State' },
  { column: 'created_by', label: 'Created by' },
  { column: 'created_at', label: 'Created' },
  { column: 'expires_at', label: 'Expires' },
  { column: 'last_used_at', label: 'Last used' },
  { label: 'Actions' },
]

const tableWidth = 950
const rowHeights = { table: 64, cards: 184 } as const

/** Draws only rows near the screen. */
export function KeyTable({
  keys,
  sorting,
  onSort,
  now,
  rotationDays,
  isLoading,
  selected,
  onSelect,
  ...actions
}: Props) {
  const list = useRef<HTMLDivElement>(null)
  const { keys: all } = useKeys()
  const rotated = useMemo(() => rotatedIds(all ?? []), [all])
  const wasWide = useRef(matchMedia('(min-width: 1275px)').matches)
  const rowHeight = rowHeights[wasWide.current ? 'table' : 'cards']
  const rows = useVirtualRows(list, keys.length, rowHeight)
  if (rows.width > 0) wasWide.current = rows.width >= tableWidth
  const look = wasWide.current ? 'table' : 'cards'
  const height = rowHeights[look]
  const shown = keys.slice(rows.start, rows.end)

  return (
    <div className={`key-table key-table-${look}`} role="table" aria-label="API keys" aria-rowcount={keys.length + 1}>
      <div role="rowgroup" className="key-head">
        <div role="row" className="key-row" aria-rowindex={1}>
          {headers.map(({ column, label }) => (
            <HeaderCell key={label} label={label} column={column} sorting={sorting} onSort={onSort} />
          ))}
        </div>
      </div>
      <div role="rowgroup" className="key-body" ref={list} style={{ height: Math.max(keys.length, 1) * height }}>
        {shown.map((key, index) => (
          <KeyRow
            key={key.id}
            apiKey={key}
            isSelected={selected.has(key.id)}
            onSelect={(isOn) => onSelect(withKey(selected, key.id, isOn))}
            rotated={rotated}
            index={rows.start + index}
            style={{ transform: `translateY(${(rows.start + index) * height}px)`, height }}
            now={now}
            rotationDays={rotationDays}
            {...actions}
          />
        ))}
      </div>
      {isLoading ? (
        <p className="key-more" role="status">
          Loading more keys…
        </p>
      ) : undefined}
    </div>
  )
}

function withKey(selected: ReadonlySet<string>, id: string, isOn: boolean): ReadonlySet<string> {
  const next = new Set(selected)
  if (isOn) next.add(id)
  else next.delete(id)
  return next
}

interface HeaderProps {
  readonly label: string
  readonly column: Column | undefined
  readonly sorting: Sorting
  readonly onSort: (sorting: Sorting) => void
}

function HeaderCell({ label, column, sorting, onSort }: HeaderProps) {
  if (column === undefined) {
    return (
      <div role="columnheader" className="key-cell">
        {label === 'Actions' ? <span className="for-listeners">{label}</span> : label}
      </div>
    )
  }
  const isSorted = sorting.column === column
  const order = isSorted ? (sorting.isDescending ? 'descending' : 'ascending') : 'none'
  return (
    <div role="columnheader" className="key-cell" aria-sort={order}>
      <button
        type="button"
        className={`sort sort-${order}`}
        onClick={() => onSort({ column, isDescending: isSorted ? !sorting.isDescending : column.endsWith('_at') })}
      >
        {label}
        <Icon name="chevron" size={14} />
      </button>
    </div>
  )
}

interface RowProps extends KeyActions {
  readonly apiKey: ApiKey
  readonly isSelected: boolean
  readonly onSelect: (isOn: boolean) => void
  readonly rotated: ReadonlySet<string>
  readonly index: number
  readonly style: CSSProperties
  readonly now: number
  readonly rotationDays: number
}

function KeyRow(props: RowProps) {
  const { apiKey, isSelected, onSelect, rotated, index, style, now, rotationDays, onRotate, onRevoke, onOpen } = props
  const attention = attentionOf(apiKey, now, rotationDays, rotated)
  return (
    <div role="row" className={`key-row key-row-${apiKey.state}`} aria-rowindex={index + 2} style={style}>
      <div role="cell" className="key-cell cell-label">
        <Checkbox
          className="tick-field key-select"
          aria-label={`Select ${apiKey.label}`}
          isSelected={isSelected}
          isDisabled={!canChange(apiKey)}
          onChange={onSelect}
        >
          <span className="tick" aria-hidden="true">
            <Icon name="check" size={14} />
          </span>
        </Checkbox>
        <Link to={`/settings/api-keys/${apiKey.id}`} className="key-link" title={apiKey.label}>
          {apiKey.label}
        </Link>
      </div>
      <div role="cell" className="key-cell cell-key">
        <code className="masked">{apiKey.masked}</code>
      </div>
      <div role="cell" className="key-cell cell-scopes">
        <ScopeList scopes={apiKey.scopes} limit={2} />
      </div>
      <div role="cell" className="key-cell cell-state">
        <StateBadge state={apiKey.state} />
      </div>
      <div role="cell" className="key-cell cell-by">
        <span className="maker" title={apiKey.created_by.label}>
          {apiKey.created_by.label}
        </span>
      </div>
      <div role="cell" className="key-cell cell-created" data-title="Created">
        <KeyAge apiKey={apiKey} attention={attention} rotationDays={rotationDays} now={now} />
      </div>
      <div role="cell" className="key-cell cell-expires" data-title={apiKey.state === 'active' ? 'Expires' : 'Expiry'}>
        <KeyEnd apiKey={apiKey} attention={attention} now={now} />
      </div>
      <div role="cell" className="key-cell cell-used" data-title="Last used">
        <LastUse apiKey={apiKey} now={now} />
      </div>
      <div role="cell" className="key-cell cell-actions">
        <ActionMenu
          label={`Actions for ${apiKey.label}`}
          actions={[
            { id: 'open', label: 'Details and audit trail', icon: 'eye', run: () => onOpen(apiKey) },
            {
              id: 'rotate',
              label: 'Rotate…',
              icon: 'rotate',
              isDisabled: apiKey.state !== 'active' || rotated.has(apiKey.id),
              run: () => onRotate(apiKey),
            },
            {
              id: 'revoke',
              label: 'Revoke…',
              icon: 'ban',
              isDangerous: true,
              isDisabled: apiKey.state === 'revoked',
              run: () => onRevoke(apiKey),
            },
          ]}
        >
          <Button look="quiet" size="small" icon="dots" aria-label={`Actions for ${apiKey.label}`} />
        </ActionMenu>
      </div>
    </div>
  )
}

export function KeyTableSkeleton() {
  return (
    <>
      <div className="toolbar-space" aria-hidden="true" />
      <OverdueReading />
      <div className="key-table" aria-busy="true">
        <span className="for-listeners" role="status">
          Loading keys
        </span>
        <div className="key-skeleton-head" aria-hidden="true" />
        {Array.from({ length: 6 }, (_, row) => (
          <div key={row} className="key-skeleton-row" aria-hidden="true">
            <Skeleton width="26%" />
            <Skeleton width="10%" />
            <Skeleton width="24%" />
            <Skeleton width="8%" />
            <Skeleton width="16%" />
          </div>
        ))}
      </div>
    </>
  )
}
