import { type KeyState, grantableScopes } from '@postern/contracts'
import { Input } from 'react-aria-components/Input'
import { SearchField } from 'react-aria-components/SearchField'
import { Button } from '../ui/button.tsx'
import { Icon } from '../ui/icon.tsx'
import { Select } from '../ui/select.tsx'
import { type Column, type Filter, type Sorting, type countKeys } from './select-keys.ts'

interface Props {
  readonly filter: Filter
  readonly onFilter: (filter: Filter) => void
  readonly sorting: Sorting
  readonly onSort: (sorting: Sorting) => void
  readonly counts: ReturnType<typeof countKeys>
}

const states: readonly { readonly value: KeyState | 'all'; readonly label: string }[] = [
  { value: 'all', label: 'All' },
  { value: 'active', label: 'Active' },
  { value: 'expired', label: 'Expired' },
  { value: 'revoked', label: 'Revoked' },
]

const scopes = [
  { value: 'all' as const, label: 'Any scope' },
  ...grantableScopes.map((scope) => ({ value: scope, label: scope })),
]

const orders = {
  'created_at-': { label: 'Newest first', column: 'created_at', isDescending: true },
  'created_at+': { label: 'Oldest first', column: 'created_at', isDescending: false },
  'expires_at+': { label: 'Next to expire', column: 'expires_at', isDescending: false },
  'expires_at-': { label: 'Last to expire', column: 'expires_at', isDescending: true },
  'last_used_at-': { label: 'Used last', column: 'last_used_at', isDescending: true },
  'last_used_at+': { label: 'Unused longest', column: 'last_used_at', isDescending: false },
  'label+': { label: 'Label, A to Z', column: 'label', isDescending: false },
  'label-': { label: 'Label, Z to A', column: 'label', isDescending: true },
  'state+': { label: 'State', column: 'state', isDescending: false },
  'state-': { label: 'State, revoked first', column: 'state', isDescending: true },
  'created_by+': { label: 'Created by, A to Z', column: 'created_by', isDescending: false },
  'created_by-': { label: 'Created by, Z to A', column: 'created_by', isDescending: true },
} as const satisfies Record<string, { label: string; column: Column; isDescending: boolean }>

const orderChoices = Object.entries(orders).map(([value, { label }]) => ({ value, label }))

export function Toolbar({ filter, onFilter, sorting, onSort, counts }: Props) {
  return (
    <div className="toolbar" role="search" aria-label="Filter the keys">
      <SearchField
        className="search"
        aria-label="Search labels, last four characters, people, or paste a whole key"
        value={filter.text}
        onChange={(text) => onFilter({ ...filter, text })}
      >
        <Icon name="search" size={16} />
        <Input placeholder="Search keys" autoComplete="off" spellCheck={false} />
        <span style={{ visibility: filter.text === '' ? 'hidden' : 'visible' }}>
          <Button look="quiet" size="small" icon="close" aria-label="Clear the search" />
        </span>
      </SearchField>
      <div className="segments" role="group" aria-label="State">
        {states.map(({ value, label }) => (
          <button
            key={value}
            type="button"
            className="segment"
            aria-pressed={filter.state === value}
            onClick={() => onFilter({ ...filter, state: value })}
          >
            {label}
            <span className="segment-count">{counts[value]}</span>
          </button>
        ))}
      </div>
      <div className="toolbar-selects">
        <Select
          label="Scope"
          isLabelHidden
          choices={scopes}
          value={filter.scope}
          onChange={(scope) => onFilter({ ...filter, scope })}
        />
        <Select
          label="Order"
          isLabelHidden
          choices={orderChoices}
          value={`${sorting.column}${sorting.isDescending ? '-' : '+'}`}
          onChange={(chosen) => {
            const order = Object.entries(orders).find(([value]) => value === chosen)?.[1]
            if (order !== undefined) onSort({ column: order.column, isDescending: order.isDescending })
          }}
        />
      </div>
    </div>
  )
}
