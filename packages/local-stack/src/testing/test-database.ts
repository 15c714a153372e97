import { randomBytes } from 'node:crypto'
import { roleUrl } from '@postern/installation'
import { connect, ensureDatabase, loginRoles } from '@postern/tenant-db'
import type { LoginRole } from '@postern/tenant-db'
import { escapeIdentifier } from 'pg'
import { loopback } from '../ports.ts'
import type { Cluster } from './cluster.ts'
import { findCluster } from './cluster.ts'

/** A database with all migrations and no rows. */
export interface TestDatabase {
  readonly name: string
  /** Connection string of a role. */
  readonly url: (role: LoginRole | 'superuser') => string
  /** The ring whose assertions the database believes, as configuration text. */
  readonly assertionKeys: string
  /** Ends all sessions and removes the database. The end of the run removes it too. */
  drop(): Promise<void>
}

/**
 * Makes a database of its own for a test file, from the template of this run. PostgreSQL gives up a lock or a statement after a
 * minute there, and not after seconds as in production: how long something takes says nothing of whether it is right.
 * `hasShippedLimits`: for tests of these limits.
 */
export async function createTestDatabase({ hasShippedLimits = false } = {}): Promise<TestDatabase> {
  const cluster = await findCluster()
  const name = `test_${randomBytes(8).toString('hex')}`
  // Its files as they are: through the log of changes, which is the default, it takes several times the processor.
  const copied = `template ${escapeIdentifier(cluster.template)} strategy file_copy`
  await administer(cluster, `create database ${escapeIdentifier(name)} ${copied}`)
  // Owner and grants belong to the database itself, so that a copy of the template does not have them.
  await ensureDatabase(superuserUrl(cluster, 'postgres'), name)
  if (!hasShippedLimits) {
    const settings = Object.values(loginRoles).flatMap((role) =>
      ['lock_timeout', 'statement_timeout'].map(
        (setting) => `alter role ${role} in database ${escapeIdentifier(name)} set ${setting} = '1min'`,
      ),
    )
    await administer(cluster, settings.join('; '))
  }
  return {
    name,
    url: (role) =>
      role === 'superuser'
        ? superuserUrl(cluster, name)
        : `${roleUrl(role, cluster.passwords[role], hostsOf(cluster), name)}${queryOf(cluster)}`,
    assertionKeys: cluster.assertionKeys,
    drop: async () => await administer(cluster, `drop database if exists ${escapeIdentifier(name)} with (force)`),
  }
}

function superuserUrl(cluster: Cluster, database: string): string {
  const login = `postgres:${encodeURIComponent(cluster.superuserPassword)}`
  return `postgres://${login}@${hostsOf(cluster)}/${database}${queryOf(cluster)}`
}

function hostsOf({ port, standbyPort }: Cluster): string {
  // The standby first: it has to be passed over from the start.
  const ports = standbyPort === undefined ? [port] : [standbyPort, port]
  return ports.map((each) => `${loopback}:${each}`).join(',')
}

function queryOf({ standbyPort }: Cluster): string {
  return standbyPort === undefined ? '' : '?target_session_attrs=read-write'
}

async function administer(cluster: Cluster, statement: string): Promise<void> {
  await using connection = await connect(superuserUrl(cluster, 'postgres'))
  await connection.client.query(statement)
}
