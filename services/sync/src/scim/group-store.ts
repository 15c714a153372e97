import type { Tx } from '@postern/tenant-db'
import type { Condition, FilterTable } from './filter.ts'
import { getRow, statement } from '../sql/store.ts'

export interface Member {
  readonly id: string
  readonly type: 'User' | 'Group'
  readonly display: string | null
}

export interface StoredGroup {
  readonly id: string
  readonly displayName: string
  readonly externalId: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly version: number
}

const columns = `
  g.id, g.display_name as "displayName", g.external_id as "externalId", g.created_at as "createdAt",
  g.updated_at as "updatedAt", g.version`

const byId = statement('sync_scim_find_group', `select ${columns} from sync.scim_group g where g.id = $1::uuid`)
const lock = statement(
  'sync_scim_lock_group',
  `select ${columns} from sync.scim_group g where g.id = $1::uuid for update`,
)

export async function findGroup(tx: Tx, id: string): Promise<StoredGroup | undefined> {
  const [row] = await tx.query<StoredGroup>(byId([id]))
  return row
}

export async function lockGroup(tx: Tx, id: string): Promise<StoredGroup | undefined> {
  const [row] = await tx.query<StoredGroup>(lock([id]))
  return row
}

// Without joins or a statement name: with outdated statistics PostgreSQL would scan all users for each member.
const memberText = `
  select m.group_id as "groupId", m.member_id as id
  from sync.scim_member m
  where m.group_id = any ($1::uuid[])
  order by m.group_id, m.member_id`
const userText = `
  select u.id, coalesce(u.content ->> 'displayName', u.user_name) as display
  from sync.scim_user u
  where u.id = any ($1::uuid[]) and u.deleted_at is null`
const groupText = 'select g.id, g.display_name as display from sync.scim_group g where g.id = any ($1::uuid[])'

async function findNames(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, Omit<Member, 'id'>>> {
  if (ids.length === 0) return new Map()
  const [users, groups] = await Promise.all([
    tx.query<NameRow>({ text: userText, values: [ids] }),
    tx.query<NameRow>({ text: groupText, values: [ids] }),
  ])
  const names = new Map<string, Omit<Member, 'id'>>()
  for (const { id, display } of groups) names.set(id, { type: 'Group', display })
  for (const { id, display } of users) names.set(id, { type: 'User', display })
  return names
}

type NameRow = Pick<Member, 'id' | 'display'>

export async function listMembers(tx: Tx, groupIds: readonly string[]): Promise<ReadonlyMap<string, Member[]>> {
  if (groupIds.length === 0) return new Map()
  const rows = await tx.query<{ groupId: string; id: string }>({ text: memberText, values: [groupIds] })
  const names = await findNames(tx, [...new Set(rows.map(({ id }) => id))])
  const members = rows.flatMap(({ groupId, id }) => {
    const name = names.get(id)
    return name === undefined ? [] : [{ groupId, id, ...name }]
  })
  return new Map(
    [...Map.groupBy(members, ({ groupId }) => groupId)].map(([groupId, list]) => [
      groupId,
      list.map(({ groupId: _group, ...member }) => member),
    ]),
  )
}

const memberList = `exists (
  select from sync.scim_member m where m.tenant_id = g.tenant_id and m.group_id = g.id and {}
)`

export const groupFilters: FilterTable = {
  columns: {
    id: { sql: 'g.id', kind: 'id' },
    displayname: { sql: 'g.display_name', kind: 'text' },
    externalid: { sql: 'g.external_id', kind: 'exact' },
    'meta.resourcetype': { sql: `'Group'::text`, kind: 'text' },
    'meta.created': { sql: 'g.created_at', kind: 'time' },
    'meta.lastmodified': { sql: 'g.updated_at', kind: 'time' },
  },
  lists: { members: { some: memberList, parts: { value: { sql: 'm.member_id', kind: 'id' } } } },
}

/** Served by scim_group_display_name and the primary key; other filters scan all groups. */
export async function listGroups(
  tx: Tx,
  { text, values }: Condition,
  page: { readonly offset: number; readonly limit: number },
): Promise<{ readonly total: number; readonly groups: readonly StoredGroup[] }> {
  const from = `from sync.scim_group g where ${text}`
  const [totals, groups] = await Promise.all([
    tx.query<{ total: number }>({ text: `select count(*)::integer as total ${from}`, values }),
    page.limit === 0
      ? []
      : tx.query<StoredGroup>({
          text: `select ${columns} ${from} order by g.id offset $${values.length + 1} limit $${values.length + 2}`,
          values: [...values, page.offset, page.limit],
        }),
  ])
  return { total: getRow(totals).total, groups }
}

const insert = statement(
  'sync_scim_insert_group',
  `insert into sync.scim_group (tenant_id, id, display_name, external_id)
  values ((select tenancy.tenant_id()), $1, $2, $3)`,
)
const update = statement(
  'sync_scim_update_group',
  `update sync.scim_group g
  set display_name = $2, external_id = $3, updated_at = now(), version = g.version + 1
  where g.id = $1::uuid`,
)
const empty = statement('sync_scim_empty_group', 'delete from sync.scim_member m where m.group_id = $1::uuid')
const remove = statement('sync_scim_delete_group', 'delete from sync.scim_group g where g.id = $1::uuid')

export interface GroupNames {
  readonly displayName: string
  readonly externalId: string | undefined
}

export async function insertGroup(tx: Tx, id: string, { displayName, externalId }: GroupNames): Promise<void> {
  await tx.execute(insert([id, displayName, externalId ?? null]))
}

export async function updateGroup(tx: Tx, id: string, { displayName, externalId }: GroupNames): Promise<void> {
  await tx.execute(update([id, displayName, externalId ?? null]))
}

export async function deleteGroup(tx: Tx, id: string): Promise<void> {
  await tx.execute(empty([id]))
  await leaveGroups(tx, id)
  await tx.execute(remove([id]))
}

export async function findUnknownMember(tx: Tx, ids: readonly string[]): Promise<string | undefined> {
  const names = await findNames(tx, ids)
  return ids.find((id) => !names.has(id))
}

const join = statement(
  'sync_scim_add_members',
  `insert into sync.scim_member (tenant_id, group_id, member_id)
  select (select tenancy.tenant_id()), $1::uuid, given.id from unnest($2::uuid[]) as given (id)
  on conflict do nothing`,
)
const part = statement(
  'sync_scim_remove_members',
  'delete from sync.scim_member m where m.group_id = $1::uuid and m.member_id = any ($2::uuid[])',
)
const count = statement(
  'sync_scim_count_members',
  'select count(*)::integer as total from sync.scim_member m where m.group_id = $1::uuid',
)

export async function addMembers(tx: Tx, groupId: string, ids: readonly string[]): Promise<number> {
  return ids.length === 0 ? 0 : await tx.execute(join([groupId, ids]))
}

export async function removeMembers(tx: Tx, groupId: string, ids: readonly string[] | 'all'): Promise<number> {
  return await tx.execute(ids === 'all' ? empty([groupId]) : part([groupId, ids]))
}

const countEach = statement(
  'sync_scim_count_members_each',
  `select m.group_id as "groupId", count(*)::integer as total
  from sync.scim_member m
  where m.group_id = any ($1::uuid[])
  group by m.group_id`,
)

/** Returns the first groups, at least one, that have at most `most` members together. */
export async function limitByMembers(
  tx: Tx,
  groups: readonly StoredGroup[],
  most: number,
): Promise<readonly StoredGroup[]> {
  if (groups.length <= 1) return groups
  const rows = await tx.query<{ groupId: string; total: number }>(countEach([groups.map(({ id }) => id)]))
  const totals = new Map(rows.map(({ groupId, total }) => [groupId, total]))
  let left = most
  const end = groups.findIndex(({ id }) => (left -= totals.get(id) ?? 0) < 0)
  return end === -1 ? groups : groups.slice(0, Math.max(1, end))
}

export async function countMembers(tx: Tx, groupId: string): Promise<number> {
  return getRow(await tx.query<{ total: number }>(count([groupId]))).total
}

const leave = statement(
  'sync_scim_leave_groups',
  `with gone as (delete from sync.scim_member m where m.member_id = $1::uuid returning m.group_id)
  update sync.scim_group g
  set updated_at = now(), version = g.version + 1
  where g.id in (select gone.group_id from gone) and g.id <> $1::uuid`,
)

/** Removes a user or group from all groups. */
export async function leaveGroups(tx: Tx, memberId: string): Promise<void> {
  await tx.execute(leave([memberId]))
}

const touchGroups = statement(
  'sync_scim_touch_groups',
  `update sync.scim_group g
  set updated_at = now(), version = g.version + 1
  where g.id in (select m.group_id from sync.scim_member m where m.member_id = $1::uuid)`,
)

/** Groups show the names of their members. */
export async function touchGroupsOf(tx: Tx, id: string): Promise<void> {
  await tx.execute(touchGroups([id]))
}
