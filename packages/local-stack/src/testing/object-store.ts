import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { repositoryRoot } from '../paths.ts'
import { findFreePort, loopback } from '../ports.ts'
import { type ManagedProcess, launch, waitUntilReady } from '../processes.ts'
import { randomPassword } from '../secrets.ts'
import { makeTestFolder } from './cluster.ts'
import { findDebianProgram } from './debian-program.ts'

/** OpenStack Swift with its S3 API, the store of the compose file, for one test file. */
export interface TestObjectStore {
  readonly endpoint: string
  readonly region: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Swift reads them within seconds. */
  replaceUsers(users: Readonly<Record<string, string>>): Promise<void>
  readonly logFile: string
  readonly data: string
  kill(signal: NodeJS.Signals): void
  stop(): Promise<void>
  start(): Promise<void>
}

/** Starts Swift from the distribution's packages (Debian, Ubuntu). It ends with this process at the latest. */
export async function startTestObjectStore({
  bucket,
  forgetAfterS,
}: {
  /** Default: none. */
  readonly bucket?: string
  /** Seconds after which deleted objects leave no trace. Default: a day. */
  readonly forgetAfterS?: number
} = {}): Promise<TestObjectStore> {
  // The machine's Python may lack a library of Swift.
  const python = await findDebianProgram('python3-swift', 'usr/bin/python3', {
    folder: 'swift-package',
    needed: /^(?:python3|lib)/,
  })
  if (typeof python === 'string') throw new Error(`OpenStack Swift is missing: ${python}`)
  const home = await makeTestFolder('object-store')
  const port = await findFreePort()
  const accessKeyId = 'postern:evidence'
  const secretAccessKey = randomPassword()
  const users = join(home, 'users')
  const replaceUsers = async (next: Readonly<Record<string, string>>): Promise<void> => {
    const lines = Object.entries(next).map(([id, secret]) => `${id} ${secret}\n`)
    await writeFile(`${users}.new`, lines.join(''), { mode: 0o600 })
    await rename(`${users}.new`, users)
  }
  await replaceUsers({ [accessKeyId]: secretAccessKey })
  const program = join(repositoryRoot, 'deploy', 'store', 'store.py')
  const data = join(home, 'data')
  const logFile = join(home, 'logs', 'object-store.log')
  const start = async (): Promise<ManagedProcess> => {
    const server = await launch({
      name: 'object-store',
      command: python.command,
      args: [
        program,
        `--data=${data}`,
        `--users=${users}`,
        `--port=${port}`,
        ...(bucket === undefined ? [] : [`--bucket=${bucket}`]),
        ...(forgetAfterS === undefined ? [] : [`--forget-after=${forgetAfterS}`]),
      ],
      env: {
        ...python.env,
        PYTHONHOME: join(python.folder, 'usr'),
        PYTHONPATH: join(python.folder, 'usr', 'lib', 'python3', 'dist-packages'),
      },
      cwd: home,
      logFile,
    })
    await waitUntilReady(server, async () => await isAnswering(port))
    return server
  }
  let server = await start()
  return {
    endpoint: `http://${loopback}:${port}`,
    region: 'us-east-1',
    accessKeyId,
    secretAccessKey,
    replaceUsers,
    logFile,
    data,
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

async function isAnswering(port: number): Promise<boolean> {
  try {
    // The S3 API rejects unsigned requests.
    const answer = await fetch(`http://${loopback}:${port}/`, { signal: AbortSignal.timeout(2_000) })
    await answer.body?.cancel()
    return answer.status < 500
  } catch {
    return false
  }
}
