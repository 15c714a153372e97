import { type KeyState, grantableScopes } from '@postern/contracts'
import { type Filter, type Sorting, columns, noFilter } from './select-keys.ts'

export const usualSorting: Sorting = { column: 'created_at', isDescending: true }

const states: readonly KeyState[] = ['active', 'expired', 'revoked']

export function parseFilter(search: string): { readonly filter: Filter; readonly sorting: Sorting } {
  const query = new URLSearchParams(search)
  const order = query.get('sort') ?? ''
  const column = columns.find((each) => each === order.replace(/^-/, ''))
  return {
    filter: {
      text: (query.get('q') ?? '').slice(0, 200),
      state: states.find((state) => state === query.get('state')) ?? 'all',
      scope: grantableScopes.find((scope) => scope === query.get('scope')) ?? 'all',
      needsAttention: query.get('needs') === 'attention',
    },
    sorting: column === undefined ? usualSorting : { column, isDescending: order.startsWith('-') },
  }
}

/** Returns the query with its `?`, or an empty text for the defaults. Never contains a complete key. */
export function formatFilter(filter: Filter, sorting: Sorting): string {
  const query = new URLSearchParams()
  // URLs are stored in histories and logs.
  if (filter.text.trim() !== '' && !filter.text.includes('postern_')) query.set('q', filter.text.trim())
  if (filter.state !== noFilter.state) query.set('state', filter.state)
  if (filter.scope !== noFilter.scope) query.set('scope', filter.scope)
  if (filter.needsAttention) query.set('needs', 'attention')
  if (sorting.column !== usualSorting.column || sorting.isDescending !== usualSorting.isDescending) {
    query.set('sort', `${sorting.isDescending ? '-' : ''}${sorting.column}`)
  }
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}
