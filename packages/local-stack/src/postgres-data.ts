import { createHash } from 'node:crypto'
import { chown, mkdir, readFile, readdir, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { PostgresBinaries } from './postgres-binaries.ts'
import { commandOf, isAlive, launch, startFailure } from './processes.ts'
import type { ServerAccount } from './server-account.ts'
import { canPass, exists, machineFolder, makeOpenFolder, makePrivateFolder } from './server-account.ts'

type Log = (line: string) => void

const majorVersion = '18'

const initTimeoutMs = 120_000
const orphanTimeoutMs = 20_000

/** Contains no PG* variable, locale or time zone of the machine. */
export const postgresEnv = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' } as const

/** Returns `<home>/postgres`, which links to a folder of the machine if the account cannot reach it. */
export async function placePostgresFolder(home: string, account: ServerAccount | undefined, log: Log): Promise<string> {
  await mkdir(home, { recursive: true, mode: 0o711 })
  const usual = join(resolve(home), 'postgres')
  if (account === undefined || (await canPass(account, dirname(usual)))) {
    await makePrivateFolder(usual, account)
    return usual
  }
  const name = createHash('sha256').update(usual).digest('hex').slice(0, 16)
  const placed = join(machineFolder, 'data', name)
  await makeOpenFolder(machineFolder)
  await makeOpenFolder(dirname(placed))
  if (!(await pointsTo(usual, placed))) {
    if (await exists(usual)) {
      throw new Error(
        `PostgreSQL runs as another user, who cannot reach ${usual}. Grant access (chmod o+x) or move the folder.`,
      )
    }
    // Without the link, this folder belongs to a deleted home.
    await endOrphan(join(placed, 'data'), log)
    await rm(placed, { recursive: true, force: true })
    await symlink(placed, usual)
  }
  await makePrivateFolder(placed, account)
  return placed
}

async function pointsTo(link: string, target: string): Promise<boolean> {
  try {
    return (await readlink(link)) === target
  } catch {
    return false
  }
}

/** Removes interrupted creations, renames a damaged directory, and stops a server on it. */
export async function prepareData(
  binaries: PostgresBinaries,
  folder: string,
  options: { readonly password: string; readonly durable: boolean; readonly logFile: string; readonly log: Log },
  account: ServerAccount | undefined,
): Promise<string> {
  const data = join(folder, 'data')
  await discardUnfinished(folder, options.log)
  await moveDamagedData(data, options.log)
  if (await exists(data)) await endOrphan(data, options.log)
  else await initialise(binaries, folder, data, options, account)
  return data
}

async function discardUnfinished(folder: string, log: Log): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith('data.new-')) continue
    log(`discarded ${join(folder, name)}: its creation was interrupted, nothing was in it yet`)
    await rm(join(folder, name), { recursive: true, force: true })
  }
}

const essentialFiles = ['PG_VERSION', 'postgresql.conf', 'pg_hba.conf', join('global', 'pg_control')]

async function moveDamagedData(data: string, log: Log): Promise<void> {
  if (!(await exists(data))) return
  const missing: string[] = []
  for (const name of essentialFiles) if (!(await exists(join(data, name)))) missing.push(name)
  if (missing.length > 0) {
    const movedPath = `${data}.broken-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`
    await rename(data, movedPath)
    log(
      `${data} is not a whole data directory (no ${missing.join(', ')}): kept as ${movedPath}, starting with a new one`,
    )
    return
  }
  const version = (await readFile(join(data, 'PG_VERSION'), 'utf8')).trim()
  if (version === majorVersion) return
  throw new Error(`${data} was written by PostgreSQL ${version}, but this is ${majorVersion}. Move the folder away.`)
}

async function initialise(
  binaries: PostgresBinaries,
  folder: string,
  data: string,
  options: { readonly password: string; readonly durable: boolean; readonly logFile: string },
  account: ServerAccount | undefined,
): Promise<void> {
  // Renamed when complete.
  const unfinished = `${data}.new-${process.pid}`
  const passwordFile = join(folder, `data.new-${process.pid}.password`)
  await writeFile(passwordFile, `${options.password}\n`, { mode: 0o600 })
  try {
    if (account !== undefined) await chown(passwordFile, account.uid, account.gid)
    const initdb = await launch({
      name: 'initdb',
      command: binaries.initdb,
      args: [
        `--pgdata=${unfinished}`,
        '--username=postgres',
        `--pwfile=${passwordFile}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
        '--locale-provider=builtin',
        '--builtin-locale=C.UTF-8',
        ...(options.durable ? [] : ['--no-sync']),
      ],
      env: postgresEnv,
      cwd: '/',
      logFile: options.logFile,
      account,
    })
    const limit = setTimeout(() => initdb.kill('SIGKILL'), initTimeoutMs)
    const exit = await initdb.exited
    clearTimeout(limit)
    if (exit.code !== 0) throw await startFailure(initdb, 'could not create the data directory')
    await rename(unfinished, data)
  } finally {
    await rm(passwordFile, { force: true })
    await rm(unfinished, { recursive: true, force: true })
  }
}

/** A stale `postmaster.pid` may name another process. */
async function endOrphan(data: string, log: Log): Promise<void> {
  const note = join(data, 'postmaster.pid')
  const pid = await readPid(note)
  if (pid === undefined) return
  if (!(await isServerOf(pid, data))) {
    await rm(note, { force: true })
    return
  }
  log(`ending the PostgreSQL that an earlier start left behind (process ${pid})`)
  try {
    process.kill(pid, 'SIGINT')
    process.kill(pid, 'SIGCONT')
  } catch (cause) {
    throw new Error(`PostgreSQL process ${pid} of another user still runs on ${data}. Stop it first.`, { cause })
  }
  const deadline = performance.now() + orphanTimeoutMs
  while (isAlive(pid) && (await exists(note))) {
    if (performance.now() > deadline) {
      throw new Error(`PostgreSQL process ${pid} still runs on ${data} and does not stop. Stop it first.`)
    }
    await delay(50)
  }
}

async function readPid(note: string): Promise<number | undefined> {
  try {
    const pid = Number.parseInt(await readFile(note, 'utf8'), 10)
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined
  } catch {
    return undefined
  }
}

async function isServerOf(pid: number, data: string): Promise<boolean> {
  const command = await commandOf(pid)
  return command !== undefined && command.includes(data)
}
