import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
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
import { findFreePort, loopback } from '../ports.ts'
import { type ManagedProcess, launch, waitUntilReady } from '../processes.ts'
import { makeTestFolder } from './cluster.ts'

export interface VirusScannerProgram {
  readonly command: string
  readonly env: Readonly<Record<string, string>>
}

/** A clamd for one test file with only the given signatures. */
export interface TestVirusScanner {
  readonly port: number
  readonly path: string
  kill(signal: NodeJS.Signals): void
  stop(): Promise<void>
  start(): Promise<void>
}

/** Finds ClamAV's daemon on the PATH, else unpacks it (Debian, Ubuntu). Returns the reason if that is impossible. */
export async function findVirusScanner(
  path: string | undefined = process.env['PATH'],
  installFolder: string = join(repositoryRoot, '.tools', 'clamav-package'),
): Promise<VirusScannerProgram | string> {
  const found = await findOnPath('clamd', path)
  if (found !== undefined) return { command: found, env: { PATH: '/usr/bin:/bin' } }
  const command = join(installFolder, 'usr', 'sbin', 'clamd')
  const program = { command, env: { PATH: '/usr/bin:/bin', LD_LIBRARY_PATH: libraryPath(installFolder) } }
  if (await isProgram(command)) return program
  if (!(await hasPackages())) return 'ClamAV is not on the PATH, and this is no Debian or Ubuntu to take it from'
  try {
    await unpackPackages(installFolder, listNeededPackages)
  } catch (error) {
    return `ClamAV is not on the PATH, and its package could not be unpacked: ${firstLine(error)}`
  }
  return (await isProgram(command)) ? program : 'ClamAV is not on the PATH, and its package holds no clamd'
}

async function listNeededPackages(apt: readonly string[]): Promise<string[]> {
  const dependencies = await readDependencies(apt, 'clamav-daemon')
  if (dependencies.size === 0) throw new Error('the package lists do not know clamav-daemon')
  const needed = new Set(['clamav-daemon'])
  for (const item of needed) {
    for (const dependency of dependencies.get(item) ?? []) {
      if (dependency.startsWith('lib') && !alwaysThere.has(dependency)) needed.add(dependency)
    }
  }
  return [...needed]
}

/** Starts clamd with the given signatures (name → bytes) and configuration lines. It ends with this process at the latest. */
export async function startTestVirusScanner(
  program: VirusScannerProgram,
  signatures: Readonly<Record<string, string>>,
  settings: readonly string[] = [],
): Promise<TestVirusScanner> {
  const home = await makeTestFolder('clamav')
  const port = await findFreePort()
  const socket = join(home, 'clamd.sock')
  await mkdir(join(home, 'signatures'))
  // Name, any file type, any offset, bytes in hex.
  const lines = Object.entries(signatures).map(([name, bytes]) => `${name}:0:*:${Buffer.from(bytes).toString('hex')}`)
  await writeFile(join(home, 'signatures', 'tests.ndb'), `${lines.join('\n')}\n`)
  await writeFile(
    join(home, 'clamd.conf'),
    [
      'Foreground yes',
      `DatabaseDirectory ${join(home, 'signatures')}`,
      `TemporaryDirectory ${home}`,
      `LocalSocket ${socket}`,
      `TCPAddr ${loopback}`,
      `TCPSocket ${port}`,
      ...settings,
      '',
    ].join('\n'),
  )
  const start = async (): Promise<ManagedProcess> => {
    const server = await launch({
      name: 'clamd',
      command: program.command,
      args: ['--config-file', join(home, 'clamd.conf')],
      env: program.env,
      cwd: home,
      logFile: join(home, 'logs', 'clamd.log'),
    })
    try {
      await waitUntilReady(server, async () => ((await answers(port)) ? true : undefined), { timeoutMs: 60_000 })
    } catch (error) {
      await server.stop()
      throw error
    }
    return server
  }
  let server = await start()
  return {
    port,
    path: socket,
    kill: (signal) => server.kill(signal),
    stop: async () => {
      await server.stop()
    },
    start: async () => {
      await server.stop()
      server = await start()
    },
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect({ port, host: loopback })
  socket.setTimeout(5_000, () => socket.destroy())
  try {
    socket.write('zPING\0')
    for await (const bytes of socket) return String(bytes).startsWith('PONG')
    return false
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
