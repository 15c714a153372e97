import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { findFreePort, loopback } from '../ports.ts'
import { launch, waitUntilReady } from '../processes.ts'
import { serverAccount } from '../server-account.ts'
import { makeTestFolder } from './cluster.ts'
import { type DebianProgram, findDebianProgram } from './debian-program.ts'

export interface TestMariadb {
  readonly port: number
  stop(): Promise<void>
}

/** Unpacks MariaDB's server. Returns the reason if that is impossible. */
export async function findMariadbServer(): Promise<DebianProgram | string> {
  const needed = /^(?:lib|mariadb-common|mysql-common)/
  return await findDebianProgram('mariadb-server-core', 'usr/sbin/mariadbd', { needed })
}

/** Starts MariaDB and runs the statements, one a line. With a certificate it offers TLS. */
export async function startTestMariadb(
  { folder, command, env }: DebianProgram,
  content: { readonly statements: readonly string[]; readonly tls?: { readonly key: string; readonly cert: string } },
): Promise<TestMariadb> {
  const home = await makeTestFolder('mariadb')
  const data = join(home, 'data')
  await mkdir(data)
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(home, name), text, { mode: 0o600 })
    return join(home, name)
  }
  const share = join(folder, 'usr', 'share', 'mysql')
  const options = [
    '--no-defaults',
    ...(serverAccount() === undefined ? [] : ['--user=root']),
    `--datadir=${data}`,
    `--tmpdir=${home}`,
    `--lc-messages-dir=${join(share, 'english')}`,
    `--character-sets-dir=${join(share, 'charsets')}`,
    '--innodb-buffer-pool-size=16M',
    '--innodb-log-file-size=4M',
    '--innodb-flush-log-at-trx-commit=0',
    '--innodb-fast-shutdown=2',
    '--skip-log-bin',
    '--skip-name-resolve',
    '--character-set-server=utf8mb4',
  ]
  const tables = await Promise.all(
    ['mysql_system_tables.sql', 'mysql_system_tables_data.sql'].map(
      async (name) => await readFile(join(share, name), 'utf8'),
    ),
  )
  const script = ['create database mysql;', 'use mysql;', ...tables, 'flush privileges;', ...content.statements, '']
  await bootstrap(command, [...options, '--bootstrap'], env, script.join('\n'))
  const tls =
    content.tls === undefined
      ? []
      : [
          `--ssl-cert=${await file('cert.pem', content.tls.cert)}`,
          `--ssl-key=${await file('key.pem', content.tls.key)}`,
        ]
  const port = await findFreePort()
  const server = await launch({
    name: 'mariadbd',
    command,
    args: [...options, ...tls, `--bind-address=${loopback}`, `--port=${port}`, `--socket=${join(home, 'socket')}`],
    env,
    cwd: home,
    logFile: join(home, 'logs', 'mariadbd.log'),
  })
  await waitUntilReady(server, async () => await greets(port), 120_000)
  return {
    port,
    stop: async () => {
      await server.stop()
    },
  }
}

async function bootstrap(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  script: string,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const child = execFile(command, [...args], { env, timeout: 120_000 }, (error, _out, told) => {
      if (error === null) resolve()
      else reject(new Error(`MariaDB could not be set up: ${told.slice(-2000)}`, { cause: error }))
    })
    child.stdin?.end(script)
  })
}

/** The server speaks first. */
async function greets(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect({ port, host: loopback })
    socket.setTimeout(2000, () => socket.destroy())
    socket.once('data', () => resolve(true)).once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
    socket.once('data', () => socket.end())
  })
}
