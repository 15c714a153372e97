import { connect } from './connect.ts'
import { ownerRole } from './roles.ts'

/** Runs a statement, or several without values, and gives what pg gives. */
export type RunAsOwner = (text: string, values?: readonly unknown[]) => Promise<{ rows: unknown[] }>

/**
 * Runs what sets up a schema that is not made by migrations of ours, as the owner of all schemas. `name` keeps it from running
 * in two processes at once. `connectionString` is the migrator's.
 */
export async function asOwner(
  connectionString: string,
  name: string,
  work: (run: RunAsOwner) => Promise<void>,
): Promise<void> {
  await using connection = await connect(connectionString)
  const { client } = connection
  await client.query(`set role ${ownerRole}`)
  await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [name])
  await work(async (text, values) => await client.query(text, values === undefined ? undefined : [...values]))
}
