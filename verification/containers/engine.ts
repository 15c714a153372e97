import { execFile, spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'

const execute = promisify(execFile)

export interface Engine {
  readonly env: Readonly<Record<string, string>>
  readonly compose: readonly string[]
  readonly own: boolean
  docker(args: readonly string[], options?: RunOptions): Promise<string>
  stop(): Promise<void>
}

export interface RunOptions {
  readonly timeoutMs?: number
  readonly env?: Readonly<Record<string, string>>
}

export async function run(
  command: string,
  args: readonly string[],
  { timeoutMs = 120_000, env }: RunOptions = {},
): Promise<string> {
  try {
    const { stdout } = await execute(command, args, {
      timeout: timeoutMs,
      maxBuffer: 2 ** 26,
      env: { ...process.env, ...env },
    })
    return stdout.trim()
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error)
    throw new Error(`${command} ${args.slice(0, 6).join(' ')} failed: ${said.trim().slice(-2000)}`, { cause: error })
  }
}

/** As root on Debian. Returns the reason if that is impossible. */
export async function openEngine(say: (line: string) => void): Promise<Engine | string> {
  const isRoot = process.getuid?.() === 0
  if (!(await answers({})) && !(isRoot && (await has('apt-get')))) {
    return 'no Docker engine answers, and only root on Debian can install one'
  }
  try {
    await installMissing(say)
  } catch (error) {
    return `Docker could not be installed: ${error instanceof Error ? lastLine(error.message) : 'unknown'}`
  }
  const compose = (await succeeds('docker', ['compose', 'version'])) ? ['docker', 'compose'] : ['docker-compose']
  if (await answers({})) return engineOf({}, compose, isRoot)
  const home = join(tmpdir(), 'postern-docker')
  for (const driver of ['overlay2', 'vfs']) {
    const started = await startDaemon(home, driver)
    if (started === undefined) continue
    say(`started a Docker engine (${driver}) in ${home}`)
    return engineOf(started.env, compose, true, started.stop)
  }
  return `no Docker engine answers, and a new one did not start: ${lastLine(await readLog(home))}`
}

export function engineOf(
  env: Readonly<Record<string, string>>,
  compose: readonly string[],
  own: boolean,
  stop: () => Promise<void> = async () => undefined,
): Engine {
  return {
    env,
    compose,
    own,
    docker: async (args, options = {}) =>
      await run('docker', args, { ...options, env: { DOCKER_BUILDKIT: '0', ...env, ...options.env } }),
    stop,
  }
}

async function installMissing(say: (line: string) => void): Promise<void> {
  const missing = [
    ...((await has('docker')) ? [] : ['docker.io']),
    ...((await has('dockerd')) || (await answers({})) ? [] : ['docker.io', 'iptables']),
    ...((await has('docker-compose')) || (await succeeds('docker', ['compose', 'version'])) ? [] : ['docker-compose']),
  ]
  if (missing.length === 0) return
  say(`installing ${missing.join(', ')}`)
  await run('apt-get', ['-qq', 'update'], { timeoutMs: 300_000 })
  const install = ['-qq', 'install', '--yes', '--no-install-recommends', ...new Set(missing)]
  await run('apt-get', install, { timeoutMs: 600_000, env: { DEBIAN_FRONTEND: 'noninteractive' } })
}

async function startDaemon(
  home: string,
  driver: string,
): Promise<{ env: Record<string, string>; stop: () => Promise<void> } | undefined> {
  await mkdir(home, { recursive: true, mode: 0o711 })
  const socket = join(home, 'docker.sock')
  const env = { DOCKER_HOST: `unix://${socket}` }
  // Left over from a killed run.
  if (await answers(env)) return { env, stop: async () => undefined }
  await rm(join(home, 'docker.pid'), { force: true })
  const folders = [`--data-root=${join(home, 'data')}`, `--exec-root=${join(home, 'run')}`]
  const log = openSync(join(home, 'dockerd.log'), 'w', 0o600)
  const daemon = spawn(
    'dockerd',
    [
      `--host=${env.DOCKER_HOST}`,
      `--pidfile=${join(home, 'docker.pid')}`,
      `--storage-driver=${driver}`,
      // No proxy may accept connections for a stopped container.
      '--userland-proxy=false',
      // Otherwise all containers together would get as much processor time as the load generator.
      '--exec-opt=native.cgroupdriver=cgroupfs',
      '--cgroup-parent=/',
      ...folders,
    ],
    { stdio: ['ignore', log, log], detached: true },
  )
  let running = true
  const ended = new Promise<void>((resolve) => {
    const end = (): void => {
      running = false
      resolve()
    }
    daemon.once('exit', end)
    daemon.once('error', end)
  })
  const deadline = performance.now() + 60_000
  while (running && performance.now() < deadline) {
    if (await answers(env)) {
      return {
        env,
        stop: async () => {
          daemon.kill('SIGTERM')
          await Promise.race([ended, delay(60_000)])
        },
      }
    }
    await delay(200)
  }
  daemon.kill('SIGKILL')
  await ended
  return undefined
}

async function readLog(home: string): Promise<string> {
  return await readFile(join(home, 'dockerd.log'), 'utf8').catch(() => '')
}

async function answers(env: Readonly<Record<string, string>>): Promise<boolean> {
  return await succeeds('docker', ['version', '--format', '{{.Server.Version}}'], env)
}

export async function has(program: string): Promise<boolean> {
  return await succeeds('sh', ['-c', `command -v ${program}`])
}

async function succeeds(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<boolean> {
  return await run(command, args, { env, timeoutMs: 20_000 }).then(
    () => true,
    () => false,
  )
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? ''
}
