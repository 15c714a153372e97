import { execFile } from 'node:child_process'
import { appendFile, chown, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { loopback } from '../ports.ts'
import { placePostgresFolder } from '../postgres-data.ts'
import { type Postgres, type PostgresOptions, startPostgres } from '../postgres.ts'
import { serverAccount } from '../server-account.ts'

/** A commit returns when a standby has stored it. */
export const primarySettings: NonNullable<PostgresOptions['settings']> = {
  synchronous_commit: 'on',
  synchronous_standby_names: '*',
}

/** Starts a standby on a copy of the stopped primary's data. It follows the primary's port until it is promoted. */
export async function startStandby(
  primary: { readonly folder: string; readonly port: number },
  options: Pick<PostgresOptions, 'home' | 'port' | 'password' | 'maxConnections'>,
): Promise<Postgres> {
  const account = serverAccount()
  const data = join(await placePostgresFolder(options.home, account, () => undefined), 'data')
  await promisify(execFile)('cp', ['-a', join(primary.folder, 'data'), data])
  const signal = join(data, 'standby.signal')
  await writeFile(signal, '')
  if (account !== undefined) await chown(signal, account.uid, account.gid)
  const { port } = primary
  const source = `host=${loopback} port=${port} user=postgres password=${options.password} application_name=standby`
  await appendFile(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`)
  return await startPostgres({ ...options, durable: false, settings: { synchronous_commit: 'on' } })
}
