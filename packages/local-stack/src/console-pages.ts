import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { releaseLock, tryLock } from './lock-file.ts'
import { repositoryRoot } from './paths.ts'
import { isAlive } from './processes.ts'

const folder = join(repositoryRoot, 'services', 'console', 'web')
const built = join(folder, 'dist')
const stamp = join(built, '.built-from')
const tools = join(repositoryRoot, '.tools')
const longestBuildMs = 120_000
const sources = ['services/console/web/**/*', 'packages/contracts/src/**/*.ts', 'pnpm-lock.yaml']
const notSources = ['**/node_modules', '**/dist', '**/*.tsbuildinfo']

let building: Promise<void> | undefined

/** Concurrent calls, also of several processes, share one build. */
export async function buildConsolePages(log: (line: string) => void = () => undefined): Promise<void> {
  building ??= buildOnce(log).finally(() => {
    building = undefined
  })
  await building
}

async function buildOnce(log: (line: string) => void): Promise<void> {
  const state = await sourceState()
  if (await isBuiltFrom(state)) return
  await mkdir(tools, { recursive: true })
  const lock = join(tools, 'console-pages.lock')
  await acquire(lock)
  try {
    if (await isBuiltFrom(state)) return
    log('building the console’s pages (once, and after a change of them)')
    await build(state)
  } finally {
    await releaseLock(lock)
  }
}

/** After the time limit, this process builds beside the other, which is slower but safe. */
async function acquire(lock: string): Promise<void> {
  const deadline = performance.now() + longestBuildMs
  while (performance.now() < deadline) {
    // In a new container, a killed process may have had our id.
    const { isOurs } = await tryLock(lock, (pid) => pid !== process.pid && isAlive(pid))
    if (isOurs) return
    await delay(100)
  }
}

async function build(state: string): Promise<void> {
  const unfinished = join(tools, `console-pages-${process.pid}`)
  try {
    const vite = join(folder, 'node_modules', 'vite', 'bin', 'vite.js')
    const args = [vite, 'build', '--outDir', unfinished, '--emptyOutDir', '--logLevel', 'error']
    const { NODE_ENV: _, ...env } = process.env
    await promisify(execFile)(process.execPath, args, { cwd: folder, env })
    await writeFile(join(unfinished, '.built-from'), state)
    await rm(built, { recursive: true, force: true })
    await rename(unfinished, built)
  } catch (error) {
    // Another process may have built the same pages.
    if (!(await isBuiltFrom(state))) throw new Error('the console’s pages cannot be built', { cause: error })
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
}

async function isBuiltFrom(state: string): Promise<boolean> {
  return (await readFile(stamp, 'utf8').catch(() => '')) === state
}

async function sourceState(): Promise<string> {
  const entries = globSync(sources, { cwd: repositoryRoot, exclude: notSources, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const hash = createHash('sha256')
  for (const path of paths.toSorted()) {
    hash.update(`${path.slice(repositoryRoot.length)}\n`).update(await readFile(path))
  }
  return hash.digest('hex')
}
