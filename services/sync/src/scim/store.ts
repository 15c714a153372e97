import { type Tx, getRow, statement } from '@postern/tenant-db'
import type { UserContent } from './content.ts'
import type { Condition, FilterTable } from './filter.ts'

export type { Tx } from '@postern/tenant-db'
export { sqlError } from '@postern/tenant-db'

export interface StoredUser {
  readonly id: string
  readonly userName: string
  readonly externalId: string | null
  readonly personKey: string
  readonly active: boolean
  readonly content: UserContent
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly version: number
}

const columns = `
  u.id, u.user_name as "userName", u.external_id as "externalId", u.person_key as "personKey", u.active, u.content, u.created_at as "createdAt", u.updated_at as "updatedAt", u.version`

type Row = StoredUser & { [column: string]: unknown }

const byId = statement(
  'sync_scim_find_user',
  `select ${columns} from sync.scim_user u where u.id = $1::uuid and u.deleted_at is null`,
)

export async function findUser(tx: Tx, id: string): Promise<StoredUser | undefined> {
  const [row] = await tx.query<Row>(byId([id]))
  return row
}

const emailList = { some: `exists (select from jsonb_array_elements(u.content -> 'emails') as e (item) where {})` }
const enterprise = `u.content -> 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'`
const textColumn = (sql: string) => ({ sql, kind: 'text' }) as const

/** Served by scim_user_user_name, scim_user_external_id and the primary key; other filters scan all users. */
export const userFilters: FilterTable = {
  columns: {
    id: { sql: 'u.id', kind: 'id' },
    username: textColumn('u.user_name'),
    externalid: { sql: 'u.external_id', kind: 'exact' },
    active: { sql: 'u.active', kind: 'flag' },
    displayname: textColumn(`(u.content ->> 'displayName')`),
    title: textColumn(`(u.content ->> 'title')`),
    'name.familyname': textColumn(`(u.content #>> '{name,familyName}')`),
    'name.givenname': textColumn(`(u.content #>> '{name,givenName}')`),
    'meta.resourcetype': textColumn(`'User'::text`),
    'meta.created': { sql: 'u.created_at', kind: 'time' },
    'meta.lastmodified': { sql: 'u.updated_at', kind: 'time' },
    department: textColumn(`(${enterprise} ->> 'department')`),
    division: textColumn(`(${enterprise} ->> 'division')`),
    employeenumber: textColumn(`(${enterprise} ->> 'employeeNumber')`),
    manager: { sql: 'u.manager', kind: 'exact' },
    'manager.value': { sql: 'u.manager', kind: 'exact' },
  },
  lists: {
    emails: {
      ...emailList,
      parts: {
        value: textColumn(`(e.item ->> 'value')`),
        type: textColumn(`(e.item ->> 'type')`),
        primary: { sql: `(e.item -> 'primary')::boolean`, kind: 'flag' },
      },
    },
  },
}

const mostBytes = 4 * 1024 * 1024

/** Rejects with ResultTooLargeError if the page has more than `mostBytes`. */
export async function listUsers(
  tx: Tx,
  { text, values }: Condition,
  page: { readonly offset: number; readonly limit: number },
): Promise<{ readonly total: number; readonly users: readonly StoredUser[] }> {
  const from = `from sync.scim_user u where u.deleted_at is null and ${text}`
  const [totals, users] = await Promise.all([
    tx.query<{ total: number }>({ text: `select count(*)::integer as total ${from}`, values }),
    page.limit === 0
      ? []
      : tx.query<Row>({
          text: `select ${columns} ${from} order by u.id offset $${values.length + 1} limit $${values.length + 2}`,
          values: [...values, page.offset, page.limit],
          maxBytes: mostBytes,
        }),
  ])
  return { total: totals[0]?.total ?? 0, users }
}

export interface TakenNames {
  readonly userName: boolean
  readonly externalId: boolean
  readonly personKey: boolean
}

const taken = statement(
  'sync_scim_taken',
  `select
    exists (
      select from sync.scim_user u
      where u.deleted_at is null and lower(u.user_name) = lower($1::text) and u.id is distinct from $4::uuid
    ) as "userName",
    exists (
      select from sync.scim_user u
      where u.deleted_at is null and u.external_id = $2::text and u.id is distinct from $4::uuid
    ) as "externalId",
    exists (
      select from sync.scim_user u
      where u.deleted_at is null and u.person_key = $3::text and u.id is distinct from $4::uuid
    ) as "personKey"`,
)

export async function findTaken(
  tx: Tx,
  names: {
    readonly userName: string
    readonly externalId: string | undefined
    readonly personKey: string
    readonly id: string | undefined
  },
): Promise<TakenNames> {
  return getRow(
    await tx.query<TakenNames & { [column: string]: unknown }>(
      taken([names.userName, names.externalId ?? null, names.personKey, names.id ?? null]),
    ),
  )
}

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
  return await tx.query<ManagerCount & { [column: string]: unknown }>(managerCounts([units, exceptUser]))
}

const activeUsers = statement(
  'sync_scim_active_users',
  `select ${columns}
  from sync.scim_user u
  where u.deleted_at is null and u.active and (u.id = any ($1::uuid[]) or u.external_id = any ($2::text[]))`,
)

export async function findActiveUsers(
  tx: Tx,
  ids: readonly string[],
  externalIds: readonly string[],
): Promise<StoredUser[]> {
  return ids.length + externalIds.length === 0 ? [] : await tx.query<Row>(activeUsers([ids, externalIds]))
}

// Served by scim_user_by_manager.
const managedUnits = statement(
  'sync_scim_managed_units',
  `select distinct on (u.unit_key) ${enterprise} ->> 'division' as division, ${enterprise} ->> 'department' as department
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

const byPersonKey = statement(
  'sync_scim_find_by_person',
  `select ${columns} from sync.scim_user u where u.person_key = $1::text and u.deleted_at is null`,
)

export async function findUserOfPerson(tx: Tx, personKey: string): Promise<StoredUser | undefined> {
  const [row] = await tx.query<Row>(byPersonKey([personKey]))
  return row
}

export interface UserRow {
  readonly userName: string
  readonly externalId: string | undefined
  readonly active: boolean
  readonly unitKey: string | undefined
  readonly divisionKey: string | undefined
  readonly manager: string | undefined
  readonly content: UserContent
}

const insert = statement(
  'sync_scim_insert_user',
  `insert into sync.scim_user (
    tenant_id, id, user_name, external_id, person_key, active, unit_key, division_key, content, manager
  )
  values ((select tenancy.tenant_id()), $1, $2, $3, $4, $5, $6, $7, $8, $9)`,
)
const update = statement(
  'sync_scim_update_user',
  `update sync.scim_user u
  set user_name = $3, external_id = $4, active = $5, unit_key = $6, division_key = $7, content = $8, manager = $9,
    updated_at = now(), version = u.version + 1
  where u.id = $1::uuid and u.version = $2::integer and u.deleted_at is null`,
)
const remove = statement(
  'sync_scim_delete_user',
  `update sync.scim_user u
  set deleted_at = now(), active = false, updated_at = now(), version = u.version + 1
  where u.id = $1::uuid and u.version = $2::integer and u.deleted_at is null`,
)
const leave = statement(
  'sync_scim_leave_groups',
  `with gone as (delete from sync.scim_member m where m.member_id = $1::uuid returning m.group_id)
  update sync.scim_group g
  set updated_at = now(), version = g.version + 1
  where g.id in (select gone.group_id from gone)`,
)
const touchGroups = statement(
  'sync_scim_touch_groups',
  `update sync.scim_group g
  set updated_at = now(), version = g.version + 1
  where g.id in (select m.group_id from sync.scim_member m where m.member_id = $1::uuid)`,
)

/** Throws a unique violation if a name is in use. */
export async function insertUser(tx: Tx, id: string, personKey: string, row: UserRow): Promise<void> {
  const { userName, externalId, active, unitKey, divisionKey, manager, content } = row
  await tx.execute(
    insert([
      id,
      userName,
      externalId ?? null,
      personKey,
      active,
      unitKey ?? null,
      divisionKey ?? null,
      JSON.stringify(content),
      manager ?? null,
    ]),
  )
}

/** Groups show the names of their members. */
export async function touchGroupsOf(tx: Tx, id: string): Promise<void> {
  await tx.execute(touchGroups([id]))
}

/** Returns false if the user no longer has this version. */
export async function updateUser(tx: Tx, id: string, version: number, row: UserRow): Promise<boolean> {
  const { userName, externalId, active, unitKey, divisionKey, manager, content } = row
  const written = await tx.execute(
    update([
      id,
      version,
      userName,
      externalId ?? null,
      active,
      unitKey ?? null,
      divisionKey ?? null,
      JSON.stringify(content),
      manager ?? null,
    ]),
  )
  return written > 0
}

const touch = statement(
  'sync_scim_touch_user',
  `update sync.scim_user u
  set version = u.version + 1
  where u.id = $1::uuid and u.version = $2::integer and u.deleted_at is null`,
)

/** Increments the version, so that concurrent writes start over. Returns false if the user no longer has this version. */
export async function touchUser(tx: Tx, id: string, version: number): Promise<boolean> {
  return (await tx.execute(touch([id, version]))) > 0
}

const endAccess = statement(
  'sync_scim_end_access',
  `
  update tenancy.directory_name as d
  set is_active = false
  where d.person_id = $1::uuid and d.is_active`,
)

/** Ends the person's access before the user is stored. A later change of the user publishes the stored state again. */
export async function endUserAccess(tx: Tx, id: string): Promise<void> {
  await tx.execute(endAccess([id]))
}

const publish = statement(
  'sync_scim_publish_user',
  'update sync.scim_user u set active = u.active where u.id = $1::uuid and u.version = $2::integer and u.deleted_at is null',
)

/** Publishes the stored state again, after `endUserAccess` for a change that was not stored. */
export async function publishUser(tx: Tx, id: string, version: number): Promise<void> {
  await tx.execute(publish([id, version]))
}

export async function deleteUser(tx: Tx, id: string, version: number): Promise<boolean> {
  if ((await tx.execute(remove([id, version]))) === 0) return false
  await tx.execute(leave([id]))
  return true
}
