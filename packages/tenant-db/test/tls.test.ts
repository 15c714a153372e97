import { randomUUID } from 'node:crypto'
import { chmod, chown, cp, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunningCluster } from '@postern/local-stack/testing'
import { makeTestAuthority, startTestCluster } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTenantDb, sqlError } from '../src/index.ts'
import { openPool } from '../src/pool.ts'
import { firstKey, mintAssertion, openClient } from './tenant-tables.ts'

// Certificates belong to the whole server, so these tests use their own. Its certificate is for localhost.
let running: RunningCluster
const folders: string[] = []
let trusted: string
let strange: string

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-tls-'))
  folders.push(folder)
  return folder
}

async function asSuperuser(text: string): Promise<Record<string, unknown>[]> {
  const { port, superuserPassword } = running.cluster
  await using connection = await openClient(`postgres://postgres:${superuserPassword}@127.0.0.1:${port}/postgres`)
  return (await connection.client.query<Record<string, unknown>>(text)).rows
}

/** Returns whether PostgreSQL reports an encrypted session. */
async function isEncrypted(host: string, query: string): Promise<unknown> {
  const { port, passwords, template } = running.cluster
  const connectionString = `postgres://postern_findings:${passwords.findings}@${host}:${port}/${template}?${query}`
  const pool = openPool({ connectionString, maxConnections: 1, connectTimeoutMs: 10_000, applicationName: 'tls' })
  try {
    return (await pool.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()')).rows[0]?.ssl
  } finally {
    await pool.end()
  }
}

beforeAll(async () => {
  running = await startTestCluster()
  const authority = await makeTestAuthority(await newFolder())
  trusted = authority.certificate
  strange = (await makeTestAuthority(await newFolder())).certificate
  const { certificate, key } = await authority.issue('localhost')
  const [row] = await asSuperuser('show data_directory')
  const data = String(row?.['data_directory'])
  const { uid, gid } = await stat(data)
  for (const [from, name] of [
    [certificate, 'server.crt'],
    [key, 'server.key'],
  ] as const) {
    await cp(from, join(data, name))
    await chown(join(data, name), uid, gid)
    await chmod(join(data, name), 0o600)
  }
})
afterAll(async () => {
  await running.stop()
  for (const folder of folders) await rm(folder, { recursive: true, force: true })
})

describe('with sslmode=verify-full', () => {
  test('nothing is sent to a server without TLS', async () => {
    await expect(isEncrypted('localhost', `sslmode=verify-full&sslrootcert=${trusted}`)).rejects.toThrow(
      'does not support SSL',
    )
  })

  test('a server with a certificate for its name from the authority is accepted', async () => {
    await asSuperuser('alter system set ssl = on')
    await asSuperuser('select pg_reload_conf()')
    await expect.poll(async () => await asSuperuser('show ssl')).toEqual([{ ssl: 'on' }])
    expect(await isEncrypted('localhost', `sslmode=verify-full&sslrootcert=${trusted}`)).toBe(true)
  })

  test('certificates of another authority or name are rejected', async () => {
    await expect(isEncrypted('localhost', `sslmode=verify-full&sslrootcert=${strange}`)).rejects.toThrow(/certificate/)
    await expect(isEncrypted('localhost', 'sslmode=verify-full')).rejects.toThrow(/certificate/)
    await expect(isEncrypted('127.0.0.1', `sslmode=verify-full&sslrootcert=${trusted}`)).rejects.toMatchObject({
      code: 'ERR_TLS_CERT_ALTNAME_INVALID',
    })
  })
})

describe('a server that became a standby', () => {
  test('is unavailable for writes, closes their connections, and can be read', async () => {
    const { port, passwords, template, assertionKeys } = running.cluster
    const [row] = await asSuperuser('show data_directory')
    await writeFile(join(String(row?.['data_directory']), 'standby.signal'), '')
    await running.postgres.restart()
    const tenantId = randomUUID()
    const tenant = { assertion: mintAssertion(tenantId, firstKey(assertionKeys)) }
    const db = openTenantDb({
      connectionString: `postgres://postern_findings:${passwords.findings}@127.0.0.1:${port}/${template}`,
      maxConnections: 1,
      connectTimeoutMs: 10_000,
      queryTimeoutMs: 10_000,
      applicationName: 'standby',
    })
    try {
      const list = { text: 'select id from findings.finding', values: [] }
      expect(await db.read(tenant, async (tx) => tx.query(list))).toEqual([])
      const insert = {
        text: 'insert into findings.reference_counter (tenant_id, year, last_number) values ($1, 2026, 1)',
        values: [tenantId],
      }
      for (const statement of [insert, list]) {
        const failed = await db.write(tenant, async (tx) => tx.query(statement)).catch((error: unknown) => error)
        expect(sqlError(failed)).toEqual({ kind: 'unavailable' })
        expect(db.stats().total).toBe(0)
      }
    } finally {
      await db.close()
    }
  })
})
