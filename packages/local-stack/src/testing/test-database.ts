import { randomBytes } from 'node:crypto'
import { roleUrl } from '@postern/installation'
import { connect, ensureDatabase, loginRoles } from '@postern/tenant-db'
import type { LoginRole } from '@postern/tenant-db'
import { escapeIdentifier } from 'pg'
import { loopback } from '../ports.ts'
import type { Cluster } from './cluster.ts'
import { findCluster } from './cluster.ts'

export interface TestDatabase {
  readonly name: string
  readonly url: (role: LoginRole | 'superuser') => string
  /** The key ring of the assertions that the database accepts, as configuration text. */
  readonly assertionKeys: string
  /** Ends all sessions and removes the database. The end of the run removes it too. */
  drop(): Promise<void>
}

/**
 * Creates a database for a test file. Locks and statements time out after a minute, with `hasShippedLimits` as in
 * production.
 */
export async function createTestDatabase({ hasShippedLimits = false } = {}): Promise<TestDatabase> {
  const cluster = await findCluster()
  const name = `test_${randomBytes(8).toString('hex')}`
  // Copying files is cheaper than the default, the write-ahead log.
  const copied = `template ${escapeIdentifier(cluster.template)} strategy file_copy`
  await administer(cluster, `create database ${escapeIdentifier(name)} ${copied}`)
  // A copy of the template has neither its owner nor its grants.
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
  // The standby first, so that clients must skip it.
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
