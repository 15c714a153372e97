import { type Member, memberSchema } from '@postern/contracts'
import type { UsageReport } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'

interface MemberRow {
  readonly first_seen_at: Date
  readonly last_seen_at: Date
  readonly left_at: Date | null
}

/** Lists people after the id `after`, in the order of ids. Served by member_pk. */
export async function listMembers(
  tx: Tx,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<Member[]> {
  const rows = await tx.query<MemberRow>({
    name: 'keys_list_members',
    text: `
      select m.id, m.name, m.roles, m.first_seen_at, m.last_seen_at, m.left_at
        from keys.member as m
       where $1::text is null or m.id > $1
       order by m.id
       limit $2`,
    values: [after ?? null, limit],
  })
  return rows.map(({ first_seen_at: first, last_seen_at: last, left_at: left, ...member }) =>
    memberSchema.parse({
      ...member,
      first_seen_at: first.toISOString(),
      last_seen_at: last.toISOString(),
      left_at: left?.toISOString() ?? null,
    }),
  )
}

export async function countMembers(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ count: number }>({
    name: 'keys_count_members',
    text: 'select count(*)::float8 as count from keys.member as m',
    values: [],
  })
  return row?.count ?? 0
}

export async function findMember(
  tx: Tx,
  id: string,
): Promise<{ readonly name: string; readonly leftAt: Date | null } | undefined> {
  const [row] = await tx.query<{ readonly name: string; readonly left_at: Date | null }>({
    name: 'keys_find_member',
    text: 'select m.name, m.left_at from keys.member as m where m.id = $1',
    values: [id],
  })
  return row === undefined ? undefined : { name: row.name, leftAt: row.left_at }
}

/** Ignores lines that are older than the stored ones or name an unknown tenant. */
export async function recordPeople(tx: Tx, people: NonNullable<UsageReport['people']>): Promise<void> {
  await tx.execute({
    name: 'keys_record_people',
    text: 'select keys.record_people($1)',
    values: [JSON.stringify(people)],
  })
}
