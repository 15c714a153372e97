import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, rmdir, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** A separate in-memory file system that can be filled and emptied. */
export interface SmallDisk {
  readonly folder: string
  /** Uses all free space: the next written page fails with ENOSPC. */
  fill(): Promise<void>
  free(): Promise<void>
  close(): Promise<void>
}

const prefix = 'postern-disk-'
const roomyBytes = 1024 ** 3

/** Mounts one if this account may (root with the right to mount). Returns the reason otherwise. */
export async function mountSmallDisk(): Promise<SmallDisk | string> {
  await unmountAbandoned()
  const folder = await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`))
  try {
    await execute('mount', ['-t', 'tmpfs', '-o', `size=${roomyBytes},mode=700`, 'postern', folder])
  } catch {
    await rmdir(folder)
    return 'this account may not mount a file system'
  }
  const resize = async (bytes: number): Promise<void> => {
    await execute('mount', ['-o', `remount,size=${bytes}`, folder])
  }
  return {
    folder,
    fill: async () => {
      for (;;) {
        const { blocks, bfree, bsize } = await statfs(folder)
        // Concurrent writes may free space, so check again.
        const isDone = await resize(Math.max(1, blocks - bfree) * bsize).then(
          () => true,
          () => false,
        )
        if (isDone) return
      }
    },
    free: async () => await resize(roomyBytes),
    close: async () => await unmount(folder),
  }
}

async function unmount(folder: string): Promise<void> {
  await execute('umount', ['--lazy', folder]).catch(() => undefined)
  await rmdir(folder).catch(() => undefined)
}

/** Unmounts file systems of killed runs. */
async function unmountAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = Number(new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1] ?? 0)
    if (pid === 0 || isThere(pid)) continue
    await unmount(join(tmpdir(), name))
    await rm(join(tmpdir(), name), { recursive: true, force: true }).catch(() => undefined)
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
