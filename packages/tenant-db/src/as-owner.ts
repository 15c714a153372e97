import { connect } from './connect.ts'
import { ownerRole } from './roles.ts'

/** A text of several statements takes no values. */
export type RunAsOwner = (text: string, values?: readonly unknown[]) => Promise<{ rows: unknown[] }>

/** Runs `work` as the owner of all tables, one call per `name` at a time. Connects as the migrator. */
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
