import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { repositoryRoot } from './paths.ts'

const folder = join(repositoryRoot, 'services', 'console', 'web')
const built = join(folder, 'dist')
const stamp = join(built, '.built-from')
const sources = ['services/console/web/**/*', 'packages/contracts/src/**/*.ts', 'pnpm-lock.yaml']
const notSources = ['**/node_modules', '**/dist', '**/*.tsbuildinfo']

/** Concurrent calls are safe. */
export async function buildConsolePages(log: (line: string) => void = () => undefined): Promise<void> {
  const state = await sourceState()
  if (await isBuiltFrom(state)) return
  log('building the console’s pages (once, and after a change of them)')
  const unfinished = join(repositoryRoot, '.tools', `console-pages-${process.pid}`)
  await mkdir(join(repositoryRoot, '.tools'), { recursive: true })
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
