import { connect } from './connect.ts'
import { ownerRole } from './roles.ts'

export interface AssertionSecret {
  /** 1 to 32 of A-Z a-z 0-9 _ - */
  readonly keyId: string
  /** 32 to 64 bytes. */
  readonly secret: Buffer
  readonly notAfter?: Date
}

/** Stores a secret. A retired one stays retired unless `notAfter` is given. Connects as the migrator. */
export async function setAssertionSecret(
  migratorConnectionString: string,
  { keyId, secret, notAfter }: AssertionSecret,
): Promise<void> {
  await using connection = await connect(migratorConnectionString)
  await connection.client.query(`set role ${ownerRole}`)
  await connection.client.query(
    `insert into tenancy.assertion_secret (key_id, secret, not_after)
     values ($1, $2, $3)
     on conflict (key_id) do update
        set secret = excluded.secret,
            not_after = coalesce(excluded.not_after, assertion_secret.not_after)
      where (assertion_secret.secret, assertion_secret.not_after)
            is distinct from (excluded.secret, coalesce(excluded.not_after, assertion_secret.not_after))`,
    [keyId, secret, notAfter ?? null],
  )
}

/** Ends all other secrets in ten minutes, longer than any assertion lives. Returns their key ids. */
export async function retireAssertionSecrets(
  migratorConnectionString: string,
  keep: readonly string[],
): Promise<readonly string[]> {
  await using connection = await connect(migratorConnectionString)
  await connection.client.query(`set role ${ownerRole}`)
  const { rows } = await connection.client.query<{ key_id: string }>(
    `update tenancy.assertion_secret
        set not_after = now() + interval '10 minutes'
      where key_id <> all ($1) and not_after is null
      returning key_id`,
    [keep],
  )
  return rows.map((row) => row.key_id)
}
