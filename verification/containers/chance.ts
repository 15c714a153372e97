import { availableParallelism, freemem, tmpdir } from 'node:os'
import { statfs } from 'node:fs/promises'
import { Worker } from 'node:worker_threads'
import { readTimes } from './machine.ts'

/** What the run of containers asks of a machine. Below it requests of the drills fail for want of the machine, and not of Postern. */
export const least = {
  processors: 2,
  /** Free for it: two of each service, PostgreSQL, Redis, the engine and the load take two thirds of that. */
  memoryBytes: 4 * 1024 ** 3,
  /** Of the folder where an engine of our own keeps its images. */
  diskBytes: 8 * 1024 ** 3,
  /**
   * The part of all processors that it gets when it asks for all. Measured: with half of two processors at other work of the same
   * machine no request failed; with 40 to 71 % taken by the host 81 of 1,222 did.
   */
  share: 0.6,
} as const

/** What a machine has to give. */
export interface Machine {
  readonly processors: number
  readonly memoryBytes: number
  readonly diskBytes: number
  readonly share: number
}

const gibibytes = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(1)} GiB`

/** Why a machine cannot give the run a fair chance, in one line; undefined where it can. */
export function whyUnfair({ processors, memoryBytes, diskBytes, share }: Machine): string | undefined {
  if (processors < least.processors) return `there are ${processors} processors, and ${least.processors} are needed`
  if (memoryBytes < least.memoryBytes) {
    return `${gibibytes(memoryBytes)} of memory are free, and ${gibibytes(least.memoryBytes)} are needed`
  }
  if (diskBytes < least.diskBytes) {
    return `${gibibytes(diskBytes)} of ${tmpdir()} are free, and ${gibibytes(least.diskBytes)} are needed`
  }
  if (share < least.share) {
    return `of all processors ${Math.round(share * 100)} % could be had, and ${Math.round(least.share * 100)} % are needed`
  }
  return undefined
}

/** Looks at this machine for some seconds. */
export async function weighMachine(): Promise<Machine> {
  const processors = availableParallelism()
  const { bavail, bsize } = await statfs(tmpdir())
  // os.freemem is what the kernel says is available.
  return { processors, memoryBytes: freemem(), diskBytes: bavail * bsize, share: await measureShare(processors) }
}

const measuredMs = 5_000

/**
 * Asks for all processors and gives the part that it got: what others of this machine take is missing, and what the host takes,
 * which a process may be charged for as if it had run, is taken off.
 */
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
