import { X509Certificate } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { openTestAuthority } from '../../packages/local-stack/src/testing/index.ts'
import type { Compose } from './compose.ts'
import { queryAsSuperuser } from './drill-stack.ts'
import { readRedisPassword, runAclSetUser } from './redis-administrator.ts'

export const certified = ['postgres', 'pgbouncer', 'redis'] as const

/** The runbook's procedure: replace each certificate file and reload its server. */
export async function renewCertificates(system: Compose): Promise<void> {
  const { trust } = system.installation
  const authority = openTestAuthority(trust)
  for (const name of certified) {
    const { certificate, key } = await authority.issue(name)
    // Overwrites the file, which keeps its owner.
    await writeFile(join(trust, name, 'server.crt'), await readFile(certificate))
    await writeFile(join(trust, name, 'server.key'), await readFile(key))
  }
  expect(await queryAsSuperuser(system, 'select pg_reload_conf() as reloads')).toEqual([{ reloads: true }])
  const [pgbouncer = ''] = await system.containers('pgbouncer')
  await system.docker(['exec', pgbouncer, 'bash', '-c', 'kill -HUP 1'])
  const password = await readRedisPassword(system)
  const folder = '/etc/postern/tls'
  const files = ['tls-cert-file', `${folder}/server.crt`, 'tls-key-file', `${folder}/server.key`]
  await runAclSetUser(system, password, 'CONFIG', 'SET', ...files)
}

/**
 * Connects as a client and prints the certificate's fingerprint. Fails if the authority did not issue it for this name.
 */
const askForCertificate = `
  const [host, port, isSql] = process.argv.slice(1)
  const socket = require('node:net').connect(Number(port), host)
  const secure = () => {
    const over = require('node:tls').connect({ socket, servername: host }, () => {
      process.stdout.write(over.getPeerCertificate().fingerprint256)
      socket.destroy()
    })
  }
  socket.on('connect', () => {
    if (isSql !== 'sql') return secure()
    socket.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]))
    socket.once('data', secure)
  })`

export async function shownCertificates(system: Compose): Promise<Record<(typeof certified)[number], string>> {
  const [keys = ''] = await system.containers('keys')
  const fromKeys = async (...target: readonly string[]): Promise<string> =>
    (await system.docker(['exec', keys, 'node', '-e', askForCertificate, ...target])).trim()
  // Services reach PostgreSQL only through PgBouncer.
  const migrations = ['run', '--rm', '--no-deps', 'migrate', '-e', askForCertificate]
  return {
    postgres: (await system.compose([...migrations, 'postgres', '5432', 'sql'])).trim().split('\n').at(-1) ?? '',
    pgbouncer: await fromKeys('pgbouncer', '6432', 'sql'),
    redis: await fromKeys('redis', '6379', 'plain'),
  }
}

export async function containersOfCertified(system: Compose): Promise<string[]> {
  const containers = await Promise.all(certified.map((name) => system.containers(name)))
  return await Promise.all(
    containers.flat().map((id) => system.docker(['inspect', '--format', '{{.Id}} {{.State.StartedAt}}', id])),
  )
}

export async function issuedCertificates(system: Compose): Promise<Record<string, string>> {
  const { trust } = system.installation
  const fingerprints = certified.map(async (name) => {
    const certificate = new X509Certificate(await readFile(join(trust, name, 'server.crt')))
    return [name, certificate.fingerprint256] as const
  })
  return Object.fromEntries(await Promise.all(fingerprints))
}
