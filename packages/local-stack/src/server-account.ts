import { chmod, chown, cp, lstat, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'

/** PostgreSQL does not run as root. */
export interface ServerAccount {
  readonly uid: number
  readonly gid: number
}

const nobody: ServerAccount = { uid: 65534, gid: 65534 }

export function serverAccount(): ServerAccount | undefined {
  return process.getuid?.() === 0 ? nobody : undefined
}

export const machineFolder = '/var/lib/postern'

const mayRead = 0o4
const mayPass = 0o1

export async function canPass(account: ServerAccount, folder: string): Promise<boolean> {
  for (let path = resolve(folder); ; path = dirname(path)) {
    if (!(await isAllowed(account, path, mayPass))) return false
    if (path === dirname(path)) return true
  }
}

export async function canRead(account: ServerAccount, path: string): Promise<boolean> {
  return (await isAllowed(account, path, mayRead | mayPass)) && (await canPass(account, dirname(path)))
}

async function isAllowed(account: ServerAccount, path: string, wanted: number): Promise<boolean> {
  const entry = await stat(path)
  const shift = entry.uid === account.uid ? 6 : entry.gid === account.gid ? 3 : 0
  return ((entry.mode >> shift) & wanted) === wanted
}

export async function makePrivateFolder(path: string, account: ServerAccount | undefined): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  if (account !== undefined) await chown(path, account.uid, account.gid)
}

export async function makeOpenFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true })
  await chmod(path, 0o755)
}

/** The copy appears by a rename, so it is always complete. */
export async function copyReadable(from: string, to: string): Promise<void> {
  const unfinished = `${to}.new-${process.pid}`
  await rm(unfinished, { recursive: true, force: true })
  await cp(from, unfinished, { recursive: true, verbatimSymlinks: true })
  await openToAll(unfinished)
  try {
    await rename(unfinished, to)
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    if (!(await exists(to))) throw error
  }
}

async function openToAll(path: string): Promise<void> {
  const entry = await lstat(path)
  if (entry.isSymbolicLink()) return
  if (!entry.isDirectory()) {
    await chmod(path, (entry.mode & 0o100) === 0 ? 0o644 : 0o755)
    return
  }
  await chmod(path, 0o755)
  for (const name of await readdir(path)) await openToAll(join(path, name))
}

export async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch {
    return false
  }
}
