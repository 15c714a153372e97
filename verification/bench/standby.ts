import { execFile } from 'node:child_process'
import { appendFile, chmod, chown, mkdtemp, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { type AddressInfo, type Socket, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Cluster, findFreePort, startPostgres } from '@postern/local-stack/testing'
import { Client } from 'pg'

const execute = promisify(execFile)
const loopback = '127.0.0.1'

async function startRelay(port: number, delayMs: number) {
  const sockets = new Set<Socket>()
  const pass = (from: Socket, to: Socket): void => {
    from.setNoDelay(true)
    from.on('data', (chunk) => void setTimeout(() => to.write(chunk), delayMs))
    from.on('end', () => void setTimeout(() => to.end(), delayMs))
    from.on('error', () => to.destroy())
    from.on('close', () => sockets.delete(from))
    sockets.add(from)
  }
  const server = createServer((near) => {
    const far = connect(port, loopback)
    pass(near, far)
    pass(far, near)
  })
  await new Promise<void>((resolve) => void server.listen(0, loopback, resolve))
  const address = server.address()
  if (!isAddress(address)) throw new Error('the relay has no port')
  return {
    port: address.port,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => void server.close(() => resolve()))
    },
  }
}

function isAddress(address: ReturnType<ReturnType<typeof createServer>['address']>): address is AddressInfo {
  return typeof address === 'object' && address !== null
}

export async function startDistantStandby(
  cluster: Cluster,
  database: string,
  delayMs: number,
): Promise<{ stop(): Promise<void> }> {
  const password = cluster.superuserPassword
  const primary = new Client({ host: loopback, port: cluster.port, user: 'postgres', password, database: 'postgres' })
  await primary.connect()
  const home = await mkdtemp(join(tmpdir(), 'postern-standby-'))
  await chmod(home, 0o711)
  const relay = await startRelay(cluster.port, delayMs / 2)
  const configure = async (names: string, commit: string): Promise<void> => {
    await primary.query(`alter system set synchronous_standby_names = '${names}'`)
    await primary.query(`alter database ${primary.escapeIdentifier(database)} set synchronous_commit = ${commit}`)
    await primary.query('select pg_reload_conf()')
  }
  let standby: Awaited<ReturnType<typeof startPostgres>> | undefined
  const stop = async (): Promise<void> => {
    await configure('', 'off')
    await primary.end()
    await standby?.stop()
    await relay.stop()
    await rm(home, { recursive: true, force: true })
  }
  try {
    await primary.query(`select pg_backup_start('bench', true)`)
    const source = await realpath(join(cluster.home, 'postgres'))
    await execute('cp', ['--archive', source, join(home, 'postgres')])
    const { rows } = await primary.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)')
    const data = join(home, 'postgres', 'data')
    await rm(join(data, 'postmaster.pid'), { force: true })
    const { uid, gid } = await stat(data)
    for (const [name, text] of [
      ['backup_label', rows[0]?.labelfile ?? ''],
      ['standby.signal', ''],
    ] as const) {
      await writeFile(join(data, name), text)
      await chown(join(data, name), uid, gid)
    }
    const info = `host=${loopback} port=${relay.port} user=postgres password=${password} application_name=distant`
    await appendFile(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${info}'\n`)
    standby = await startPostgres({ home, port: await findFreePort(), password, durable: false, maxConnections: 400 })
    await configure('*', 'on')
    for (;;) {
      const waiting = await primary.query(`select from pg_stat_replication where sync_state = 'sync'`)
      if (waiting.rowCount === 1) break
      await new Promise((resolve) => void setTimeout(resolve, 100))
    }
    return { stop }
  } catch (error) {
    await stop()
    throw error
  }
}
