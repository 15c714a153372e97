import { type Tx, getRow, statement } from '@postern/tenant-db'
import type { UserContent } from './content.ts'
import type { Condition, FilterTable } from './filter.ts'

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

const byId = statement(
  'sync_scim_find_user',
  `select ${columns} from sync.scim_user u where u.id = $1::uuid and u.deleted_at is null`,
)

export async function findUser(tx: Tx, id: string): Promise<StoredUser | undefined> {
  const [row] = await tx.query<StoredUser>(byId([id]))
  return row
}

const emailList = { some: `exists (select from jsonb_array_elements(u.content -> 'emails') as e (item) where {})` }
/** SQL: the enterprise extension of a user. */
export const enterpriseSql = `u.content -> 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'`
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
    department: textColumn(`(${enterpriseSql} ->> 'department')`),
    division: textColumn(`(${enterpriseSql} ->> 'division')`),
    employeenumber: textColumn(`(${enterpriseSql} ->> 'employeeNumber')`),
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
      : tx.query<StoredUser>({
          text: `select ${columns} ${from} order by u.id offset $${values.length + 1} limit $${values.length + 2}`,
          values: [...values, page.offset, page.limit],
          maxBytes: mostBytes,
        }),
  ])
  return { total: getRow(totals).total, users }
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
    await tx.query<TakenNames>(taken([names.userName, names.externalId ?? null, names.personKey, names.id ?? null])),
  )
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
  return ids.length + externalIds.length === 0 ? [] : await tx.query<StoredUser>(activeUsers([ids, externalIds]))
}

const byPersonKey = statement(
  'sync_scim_find_by_person',
  `select ${columns} from sync.scim_user u where u.person_key = $1::text and u.deleted_at is null`,
)

export async function findUserOfPerson(tx: Tx, personKey: string): Promise<StoredUser | undefined> {
  const [row] = await tx.query<StoredUser>(byPersonKey([personKey]))
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
    tenant_id, id, person_key, user_name, external_id, active, unit_key, division_key, content, manager
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
/** Throws a unique violation if a name is in use. */
export async function insertUser(tx: Tx, id: string, personKey: string, row: UserRow): Promise<void> {
  await tx.execute(insert([id, personKey, ...valuesOf(row)]))
}

/** Returns false if the user no longer has this version. */
export async function updateUser(tx: Tx, id: string, version: number, row: UserRow): Promise<boolean> {
  return (await tx.execute(update([id, version, ...valuesOf(row)]))) > 0
}

function valuesOf({ userName, externalId, active, unitKey, divisionKey, manager, content }: UserRow): unknown[] {
  const given = [userName, externalId, active, unitKey, divisionKey, JSON.stringify(content), manager]
  return given.map((value) => value ?? null)
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

/** Returns false if the user no longer has this version. */
export async function deleteUser(tx: Tx, id: string, version: number): Promise<boolean> {
  return (await tx.execute(remove([id, version]))) > 0
}
