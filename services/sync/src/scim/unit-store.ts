import type { Tx } from '@postern/tenant-db'
import { enterpriseSql } from './store.ts'
import { statement } from '../sql/store.ts'

// Served by scim_user_by_unit and scim_user_by_division.
const inhabited = statement(
  'sync_scim_inhabited_units',
  `select wanted.key
  from unnest($1::text[]) as wanted (key)
  where exists (
    select
    from sync.scim_user u
    where u.deleted_at is null and u.active and u.unit_key = wanted.key and u.id is distinct from $2::uuid
  )
  or exists (
    select
    from sync.scim_user u
    where u.deleted_at is null and u.active and u.division_key = wanted.key and u.id is distinct from $2::uuid
  )`,
)

export async function listInhabited(
  tx: Tx,
  keys: readonly string[],
  exceptUser: string | undefined,
): Promise<string[]> {
  if (keys.length === 0) return []
  const rows = await tx.query<{ key: string }>(inhabited([keys, exceptUser ?? null]))
  return rows.map(({ key }) => key)
}

// Served by scim_user_by_unit.
const managerCounts = statement(
  'sync_scim_count_managers',
  `select u.unit_key as unit, u.manager, count(*)::integer as users
  from sync.scim_user u
  where u.deleted_at is null and u.active and u.unit_key = any ($1::text[]) and u.manager is not null and u.id <> $2::uuid
  group by u.unit_key, u.manager`,
)

export interface ManagerCount {
  readonly unit: string
  readonly manager: string
  readonly users: number
}

export async function countManagers(tx: Tx, units: readonly string[], exceptUser: string): Promise<ManagerCount[]> {
  return await tx.query<ManagerCount>(managerCounts([units, exceptUser]))
}

// Served by scim_user_by_manager.
const managedUnits = statement(
  'sync_scim_managed_units',
  `select distinct on (u.unit_key) ${enterpriseSql} ->> 'division' as division, ${enterpriseSql} ->> 'department' as department
  from sync.scim_user u
  where u.deleted_at is null and u.active and u.manager = any ($1::text[]) and u.unit_key is not null and u.id <> $2::uuid
  order by u.unit_key
  limit $3`,
)

export async function listManagedUnits(
  tx: Tx,
  names: readonly string[],
  exceptUser: string,
  limit: number,
): Promise<{ readonly division: string | undefined; readonly department: string | undefined }[]> {
  const rows = await tx.query<{ division: string | null; department: string | null }>(
    managedUnits([names, exceptUser, limit]),
  )
  return rows.map(({ division, department }) => ({
    division: division ?? undefined,
    department: department ?? undefined,
  }))
}
