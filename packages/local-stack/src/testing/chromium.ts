import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { findOnPath, firstLine, hasPackages, isProgram } from '../distribution-packages.ts'
import { findDebianProgram } from './debian-program.ts'

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
const installTimeoutMs = 300_000

/** Finds Chromium, else installs or unpacks Debian's package. Throws if that fails: browser tests must not be skipped. */
export async function findChromium(): Promise<Chromium> {
  const installed = await findInstalled()
  if (installed !== undefined) return installed
  const found = process.getuid?.() === 0 ? await install() : await unpack()
  if (typeof found !== 'string') return found
  throw new Error(
    'The browser tests need Chromium or Chrome. Install it (Debian: apt-get install chromium-headless-shell; ' +
      `macOS: brew install --cask chromium) and run them again. (${found})`,
  )
}

async function findInstalled(): Promise<Chromium | undefined> {
  for (const name of names) {
    const path = await findOnPath(name)
    if (path !== undefined) return { path, env: {} }
  }
  for (const path of macApplications) if (await isProgram(path)) return { path, env: {} }
  return undefined
}

async function unpack(): Promise<Chromium | string> {
  const needed = /^(?:lib|chromium|fontconfig|fonts-)/
  const found = await findDebianProgram(headless, `usr/lib/chromium/${headless}`, { folder: headless, needed })
  return typeof found === 'string' ? found : { path: found.command, env: found.env }
}

async function install(): Promise<Chromium | string> {
  if (!(await hasPackages())) return 'this machine has no apt'
  const chromium = ['install', '--yes', '--no-install-recommends', headless, 'fonts-liberation']
  try {
    await runApt(...chromium).catch(async () => {
      await runApt('update')
      await runApt(...chromium)
    })
  } catch (error) {
    return firstLine(error)
  }
  return (await findInstalled()) ?? `the package ${headless} does not contain Chromium`
}

async function runApt(...args: readonly string[]): Promise<void> {
  await promisify(execFile)('apt-get', ['-qq', ...args], {
    timeout: installTimeoutMs,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  })
}
