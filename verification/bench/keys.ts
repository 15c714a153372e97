import { median, round } from './stats.ts'
import { type System, seedKeys } from './system.ts'

/** Pages of a hundred keys of one tenant, at the keys service. Medians in milliseconds. */
export interface KeysSpeed {
  readonly keys: number
  readonly plainPage: number
  /** Each filtered page ÷ the plain page. */
  readonly ratios: Readonly<Record<string, number>>
  readonly worst: number
  readonly counts: number
}

const path = '/api/v1/api-keys?limit=100'

const inDays = (days: number) => encodeURIComponent(new Date(Date.now() + days * 86_400_000).toISOString())

export async function measureKeys(
  { stack, sql }: System,
  { keys, rounds }: { readonly keys: number; readonly rounds: number },
): Promise<KeysSpeed> {
  const tenant = await stack.createTenant()
  await sql.query('set session_replication_role = replica')
  await seedKeys({ sql, tenant }, keys)
  await makeVaried({ sql }, tenant.id)
  const person = {
    tenantId: tenant.id,
    kind: 'user',
    id: 'ada',
    label: 'Ada Lund',
    scopes: [],
    roles: ['admin'],
  } as const
  const caller = stack.caller('keys')
  const time = async (target: string): Promise<number> => {
    const startedAt = performance.now()
    const { status, text } = await caller.call(person, 'GET', target)
    if (status !== 200) throw new Error(`${target}: ${status} ${text}`)
    return performance.now() - startedAt
  }
  const filters = [
    'health=wildcard',
    'health=never_used',
    'health=unneeded_scopes',
    'health=refused_often,idle,wildcard',
    `expires_before=${inDays(10)}`,
    `unused_since=${inDays(-80)}`,
  ]
  const names = filters.map((filter) => filter.replace(/=\d.*/, ''))
  const times = { plain: [] as number[], counts: [] as number[], filtered: filters.map((): number[] => []) }
  for (let turn = -5; turn < rounds; turn += 1) {
    const plain = await time(path)
    const filtered: number[] = []
    for (const filter of filters) filtered.push(await time(`${path}&${filter}`))
    const counts = await time('/api/v1/key-health')
    // The first rounds warm up.
    if (turn < 0) continue
    times.plain.push(plain)
    times.counts.push(counts)
    for (const [place, one] of filtered.entries()) times.filtered[place]?.push(one)
  }
  const plainPage = median(times.plain)
  const ratios = times.filtered.map((each) => round(median(each) / plainPage))
  return {
    keys,
    plainPage: round(plainPage, 2),
    ratios: Object.fromEntries(names.map((name, place) => [name, ratios[place] ?? Number.NaN])),
    worst: Math.max(...ratios),
    counts: round(median(times.counts), 1),
  }
}

/** Spreads ages, uses and scopes, so that every second key has a reason or two. */
async function makeVaried({ sql }: Pick<System, 'sql'>, tenantId: string): Promise<void> {
  await sql.query(
    `update keys.api_key as k
        set created_at = now() - (n.place % 120 + 31) * interval '1 day',
            last_used_at = case n.place % 4 when 0 then null else now() - (n.place % 120) * interval '1 day' end,
            expires_at = now() + (5 + n.place % 360) * interval '1 day',
            allowed_addresses = case n.place % 2 when 0 then array['203.0.113.0/24'::cidr] else '{}' end,
            scopes = case n.place % 50 when 0 then array['read:*'] when 1 then array['read:findings', 'read:universe'] else k.scopes end
       from (select o.id, row_number() over (order by o.id) as place from keys.api_key as o where o.tenant_id = $1) as n
      where k.tenant_id = $1
        and k.id = n.id`,
    [tenantId],
  )
  await sql.query(
    `insert into keys.api_key_use (tenant_id, key_id, day, route, requests)
     select k.tenant_id, k.id, (now() at time zone 'UTC')::date, 'findings.list', 1
       from keys.api_key as k
      where k.tenant_id = $1
        and k.last_used_at > now() - interval '20 days'`,
    [tenantId],
  )
  await sql.query('set session_replication_role = origin')
  await sql.query(
    `select keys.assess_keys($1, b.ids)
       from (select array_agg(n.id) as ids
               from (select k.id, row_number() over (order by k.id) / 200 as batch
                       from keys.api_key as k
                      where k.tenant_id = $1) as n
              group by n.batch) as b`,
    [tenantId],
  )
  await sql.query('vacuum analyze keys.api_key, keys.api_key_health, keys.api_key_review')
}
