import type { KeyPolicy } from '@postern/contracts'

export function daysInWords(days: number): string {
  const years = days / 365
  if (days >= 365 && Number.isInteger(years)) return years === 1 ? '1 year' : `${years} years`
  return days === 1 ? '1 day' : `${days.toLocaleString()} days`
}

export function rulesInWords({
  forbid_wildcards: isStrict,
  require_owner: isOwned,
  most_keys: most,
}: KeyPolicy): string {
  return [
    isStrict ? 'No wildcard scopes' : 'Wildcard scopes allowed',
    isOwned ? 'owner required' : 'owner optional',
    most === null ? 'any number of keys' : `at most ${most.toLocaleString()} active keys`,
  ].join(', ')
}
