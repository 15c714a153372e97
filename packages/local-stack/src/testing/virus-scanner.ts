import { mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { findOnPath } from '../distribution-packages.ts'
import { findFreePort, loopback } from '../ports.ts'
import { type ManagedProcess, launch, waitUntilReady } from '../processes.ts'
import { makeTestFolder } from './cluster.ts'
import { findDebianProgram } from './debian-program.ts'

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
export async function findVirusScanner(): Promise<VirusScannerProgram | string> {
  const installed = await findOnPath('clamd')
  if (installed !== undefined) return { command: installed, env: { PATH: '/usr/bin:/bin' } }
  return await findDebianProgram('clamav-daemon', 'usr/sbin/clamd', { folder: 'clamav-package' })
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
    await waitUntilReady(server, async () => await answersPing(port))
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

async function answersPing(port: number): Promise<boolean> {
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
