import { connect } from './connect.ts'
import { ownerRole } from './roles.ts'

/** A secret that tenant assertions are made with. */
export interface AssertionSecret {
  /** 1 to 32 of A-Z a-z 0-9 _ - */
  readonly keyId: string
  /** 32 to 64 bytes. */
  readonly secret: Buffer
  /** When PostgreSQL stops to accept it; absent: never. */
  readonly notAfter?: Date
}

/**
 * Stores a secret, or replaces the one with the same key id. One that was ended stays ended where no end is given: an operator has
 * put it out, and a migration must not bring it back. `migratorConnectionString` is of the migrator, after the
 * tenancy schema was migrated.
 */
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

/**
 * Ends the acceptance of every secret that is not named, ten minutes from now: longer than any assertion lives. Gives the
 * key ids that it has ended.
 */
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
