import { randomBytes } from 'node:crypto'
import type { TestStack } from '@postern/local-stack/testing'
import { Client } from 'pg'

const perInsert = 20_000

/** Creates this many keys of a tenant at once: `Key 0001` and so on, the last one newest. */
export async function fillTenant({ database }: TestStack, tenantId: string, count: number): Promise<void> {
  const client = new Client({ connectionString: database.url('superuser') })
  await client.connect()
  try {
    for (let from = 1; from <= count; from += perInsert) {
      const hashes = Array.from({ length: Math.min(perInsert, count - from + 1) }, () => randomBytes(32))
      await client.query(
        `insert into keys.api_key (tenant_id, hash, last_four, label, scopes, created_by_type, created_by_id,
           created_by_label, expires_at, made_for)
         select $1, k.hash, right(encode(k.hash, 'hex'), 4), 'Key ' || to_char(k.place + $3 - 1, 'FM0000'),
                array['read:findings'], 'user', 'rosa', 'Rosa Kellner', now() + interval '30 days', interval '30 days'
           from unnest($2::bytea[]) with ordinality as k (hash, place)
          order by k.place`,
        [tenantId, hashes, from],
      )
    }
  } finally {
    await client.end()
  }
}
