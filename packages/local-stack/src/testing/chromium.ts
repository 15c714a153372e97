import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  alwaysThere,
  findOnPath,
  firstLine,
  hasPackages,
  isProgram,
  libraryPath,
  readDependencies,
  unpackPackages,
} from '../distribution-packages.ts'
import { repositoryRoot } from '../paths.ts'

export interface Chromium {
  readonly path: string
  readonly env: Readonly<Record<string, string>>
}

// Without a window to draw, the same pages need half of the processor time.
const headless = 'chromium-headless-shell'
const names = [headless, 'chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'] as const
const macApplications = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
] as const
const unpackedFolder = join(repositoryRoot, '.tools', headless)
const installTimeoutMs = 300_000

/**
 * Finds an installed Chromium, else installs or unpacks Debian's package. Throws if that is impossible, because browser tests must not
 * be skipped.
 */
export async function findChromium(): Promise<Chromium> {
  const installed = await findInstalled()
  if (installed !== undefined) return installed
  const reasons: string[] = []
  if (await hasPackages()) {
    try {
      return process.getuid?.() === 0 ? await install() : await unpack()
    } catch (error) {
      reasons.push(firstLine(error))
    }
  }
  throw new Error(
    'the browser tests need Chromium or Chrome: install it (Debian: apt-get install chromium-headless-shell; macOS: brew install ' +
      `--cask chromium) and run them again${reasons.map((reason) => ` (${reason})`).join('')}`,
  )
}

async function findInstalled(): Promise<Chromium | undefined> {
  for (const name of names) {
    const path = await findOnPath(name)
    if (path !== undefined) return { path, env: {} }
  }
  for (const path of macApplications) if (await isProgram(path)) return { path, env: {} }
  return await findUnpacked()
}

async function findUnpacked(): Promise<Chromium | undefined> {
  const path = join(unpackedFolder, 'usr', 'lib', 'chromium', headless)
  if (!(await isProgram(path))) return undefined
  return { path, env: { LD_LIBRARY_PATH: libraryPath(unpackedFolder) } }
}

async function run(...args: readonly string[]): Promise<void> {
  await promisify(execFile)('apt-get', ['-qq', ...args], {
    timeout: installTimeoutMs,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  })
}

async function install(): Promise<Chromium> {
  const chromium = ['install', '--yes', '--no-install-recommends', headless, 'fonts-liberation']
  await run(...chromium).catch(async () => {
    await run('update')
    await run(...chromium)
  })
  const installed = await findInstalled()
  if (installed === undefined) throw new Error(`the package ${headless} holds no Chromium`)
  return installed
}

async function unpack(): Promise<Chromium> {
  await unpackPackages(unpackedFolder, async (apt) => {
    const dependencies = await readDependencies(apt, headless)
    const needed = new Set([headless])
    for (const item of needed) {
      for (const dependency of dependencies.get(item) ?? []) {
        if (/^(?:lib|chromium|fontconfig|fonts-)/.test(dependency) && !alwaysThere.has(dependency))
          needed.add(dependency)
      }
    }
    return [...needed]
  })
  const unpacked = await findUnpacked()
  if (unpacked !== undefined) return unpacked
  await rm(unpackedFolder, { recursive: true, force: true })
  throw new Error(`the package ${headless} holds no Chromium`)
}
