import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  findOnPath,
  firstLine,
  hasPackages,
  isProgram,
  libraryPath,
  listPackages,
  unpackPackages,
} from './distribution-packages.ts'
import { loopback } from './ports.ts'

export interface RedisProgram {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly bind: string
  readonly port: number
}

const execute = promisify(execFile)

export const serverNames = ['valkey-server', 'redis-server'] as const
export type ServerName = (typeof serverNames)[number]

const containerImage = 'valkey/valkey:8.1.11-trixie'
const containerPort = 6379

/**
 * On the PATH, otherwise from a package (Debian, Ubuntu) or in a container. Throws an error that names what to install.
 */
export async function findRedisProgram(
  installFolder: string,
  port: number,
  log: (line: string) => void,
): Promise<RedisProgram> {
  for (const name of serverNames) {
    const command = await findOnPath(name)
    if (command !== undefined) return runDirectly(command, port)
  }
  const unpacked = await findUnpacked(installFolder)
  if (unpacked !== undefined) return runDirectly(unpacked, port, libraryPath(installFolder))
  const reasons: string[] = []
  if (await hasPackages()) {
    log("no Valkey or Redis on the PATH: unpacking the distribution's package (a few seconds, once)")
    try {
      return runDirectly(await unpackPackage(installFolder), port, libraryPath(installFolder))
    } catch (error) {
      reasons.push(`Could not unpack the distribution's package: ${firstLine(error)}`)
    }
  }
  const docker = await findDocker()
  if (docker !== undefined) return runInContainer(docker, port)
  throw new Error(
    'postern needs Valkey or Redis 7: install valkey-server (Debian, Ubuntu: apt-get install valkey-server or redis-server; ' +
      `macOS: brew install valkey) or Docker, and start again${reasons.map((reason) => ` (${reason})`).join('')}`,
  )
}

function runDirectly(command: string, port: number, libraries?: string): RedisProgram {
  const env = { PATH: '/usr/bin:/bin', ...(libraries === undefined ? {} : { LD_LIBRARY_PATH: libraries }) }
  return { command, args: ['-'], env, bind: loopback, port }
}

function runInContainer(docker: string, port: number): RedisProgram {
  return {
    command: docker,
    args: [
      'run',
      '--rm',
      '--interactive',
      `--publish=${loopback}:${port}:${containerPort}`,
      containerImage,
      'valkey-server',
      '-',
    ],
    env: Object.fromEntries(
      ['PATH', 'HOME', 'DOCKER_HOST', 'DOCKER_CONTEXT', 'DOCKER_CONFIG'].flatMap((name) => {
        const value = process.env[name]
        return value === undefined ? [] : [[name, value]]
      }),
    ),
    bind: '0.0.0.0',
    port: containerPort,
  }
}

export async function findServer(
  name: ServerName,
  installFolder: string,
): Promise<Pick<RedisProgram, 'command' | 'env'> | undefined> {
  const installed = await findOnPath(name)
  if (installed !== undefined) return runDirectly(installed, 0)
  const unpacked = join(installFolder, 'usr', 'bin', name)
  return (await isProgram(unpacked)) ? runDirectly(unpacked, 0, libraryPath(installFolder)) : undefined
}

async function findDocker(): Promise<string | undefined> {
  const docker = await findOnPath('docker')
  if (docker === undefined) return undefined
  try {
    await execute(docker, ['info'], { timeout: 10_000 })
    return docker
  } catch {
    return undefined
  }
}

async function findUnpacked(installFolder: string): Promise<string | undefined> {
  for (const name of serverNames) {
    const command = join(installFolder, 'usr', 'bin', name)
    if (await isProgram(command)) return command
  }
  return undefined
}

async function unpackPackage(installFolder: string): Promise<string> {
  await unpackPackages(installFolder, listNeededPackages)
  const command = await findUnpacked(installFolder)
  if (command !== undefined) return command
  await rm(installFolder, { recursive: true, force: true })
  throw new Error('the package does not contain a server')
}

async function listNeededPackages(apt: readonly string[]): Promise<string[]> {
  for (const name of serverNames) {
    const packages = await listPackages(apt, name, { needed: /^(?:lib|valkey-|redis-)/ }).catch(() => [])
    // A name without dependencies is not a real package.
    if (packages.length > 1) return packages
  }
  throw new Error('The package lists contain neither redis-server nor valkey-server.')
}
