import { availableParallelism, freemem, tmpdir } from 'node:os'
import { statfs } from 'node:fs/promises'
import { Worker } from 'node:worker_threads'
import { readTimes } from './machine.ts'

/** On a smaller or slower machine, requests fail because of it. */
export const least = {
  processors: 2,
  memoryBytes: 4 * 1024 ** 3,
  diskBytes: 8 * 1024 ** 3,
  /** Of the processors' time. */
  share: 0.6,
} as const

export interface Machine {
  readonly processors: number
  readonly memoryBytes: number
  readonly diskBytes: number
  readonly share: number
}

const gibibytes = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(1)} GiB`

export function findShortage({ processors, memoryBytes, diskBytes, share }: Machine): string | undefined {
  if (processors < least.processors) return `there are ${processors} processors, and ${least.processors} are needed`
  if (memoryBytes < least.memoryBytes) {
    return `${gibibytes(memoryBytes)} of memory are free, and ${gibibytes(least.memoryBytes)} are needed`
  }
  if (diskBytes < least.diskBytes) {
    return `${gibibytes(diskBytes)} of ${tmpdir()} are free, and ${gibibytes(least.diskBytes)} are needed`
  }
  if (share < least.share) {
    return `${Math.round(share * 100)} % of the processors' time is available, and ${Math.round(least.share * 100)} % are needed`
  }
  return undefined
}

export async function measureMachine(): Promise<Machine> {
  const processors = availableParallelism()
  const { bavail, bsize } = await statfs(tmpdir())
  // os.freemem returns the kernel's available memory.
  return { processors, memoryBytes: freemem(), diskBytes: bavail * bsize, share: await measureShare(processors) }
}

const measuredMs = 5_000

async function measureShare(processors: number): Promise<number> {
  const [before, usage, since] = [readTimes(), process.cpuUsage(), performance.now()]
  await Promise.all(Array.from({ length: processors }, burn))
  const { user, system } = process.cpuUsage(usage)
  const got = (user + system) / 1000 / (processors * (performance.now() - since))
  const after = readTimes()
  const ticks = after.all - before.all
  const stolen = ticks === 0 ? 0 : (after.stolen - before.stolen) / ticks
  return Math.max(0, Math.min(1, got, 1 - stolen))
}

async function burn(): Promise<void> {
  const worker = new Worker(`const until = performance.now() + ${measuredMs}; while (performance.now() < until);`, {
    eval: true,
  })
  await new Promise<void>((resolve, reject) => {
    worker.once('exit', () => resolve())
    worker.once('error', reject)
  })
}
