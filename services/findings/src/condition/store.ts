import type { ResourceAddress } from '@postern/contracts'
import type { OwnerFilter } from '@postern/contracts/internal'
import { addressLists } from '@postern/tenant-db'

/** A condition of a list, whose SQL gets a placeholder for each value. */
export interface Condition {
  readonly values: readonly unknown[]
  sql(...parameters: readonly string[]): string
}

/** Returns no condition if the value is undefined. */
export function conditionIf(value: unknown, sql: (parameter: string) => string): Condition[] {
  return value === undefined ? [] : [{ values: [value], sql: (parameter = '') => sql(parameter) }]
}

/** Parameters start at `$first`. */
export function joinConditions(
  conditions: readonly Condition[],
  first = 1,
): { text: string; values: readonly unknown[] } {
  let next = first
  const texts = conditions.map(({ values, sql }) => sql(...values.map(() => `$${next++}`)))
  return { text: texts.length === 0 ? 'true' : texts.join(' and '), values: conditions.flatMap(({ values }) => values) }
}

const lastTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** PostgreSQL cannot parse JavaScript's years before 0 or after 9999, and no row is older than 1970. */
export function timeOf(time: Date | undefined): string | undefined {
  if (time === undefined) return undefined
  if (time.getTime() < 0) return '-infinity'
  return time.getTime() > lastTime ? 'infinity' : time.toISOString()
}

/** PostgreSQL has no year 0. */
export function dateOf(date: string | undefined): string | undefined {
  return date === undefined || date >= '0001' ? date : '-infinity'
}

export function patternOf(text: string | undefined): string | undefined {
  return text === undefined ? undefined : `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`
}

function lowerCaseSql(texts: string): string {
  return `any(array(select lower(named) from unnest(${texts}::text[]) as named))`
}

/** Matches the owner case-insensitively. */
export function ownedBy(owner: OwnerFilter | undefined): Condition[] {
  if (owner === undefined) return []
  return [
    {
      values: [owner.identifiers, owner.texts, owner.names],
      sql: (identifiers = '', texts = '', names = '') =>
        `(t.owner ->> 'person_id' = ${lowerCaseSql(identifiers)} or lower(t.owner ->> 'email') = ${lowerCaseSql(identifiers)}
          or lower(t.owner ->> 'name') = ${lowerCaseSql(texts)}
          or (not t.owner ?| array['person_id', 'email'] and lower(t.owner ->> 'name') = ${lowerCaseSql(names)}))`,
    },
  ]
}

export function belongsToFindings(addresses: readonly ResourceAddress[] | undefined): Condition[] {
  if (addresses === undefined) return []
  return [
    {
      values: addressLists(addresses),
      sql: (ids, references, externalIds) =>
        `t.finding_id = any(array(
          select f.id from findings.finding f where f.id = any(${ids}::uuid[])
          union all select f.id from findings.finding f where f.reference = any(${references}::text[])
          union all select f.id from findings.finding f where f.external_id = any(${externalIds}::text[])))`,
    },
  ]
}
