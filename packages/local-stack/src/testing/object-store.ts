import { readdir, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { alwaysThere, hasPackages, libraryPath, readDependencies, unpackPackages } from '../distribution-packages.ts'
import { repositoryRoot } from '../paths.ts'
import { findFreePort, loopback } from '../ports.ts'
import { type ManagedProcess, launch, waitUntilReady } from '../processes.ts'
import { randomPassword } from '../secrets.ts'
import { makeTestFolder } from './cluster.ts'

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

const installFolder = join(repositoryRoot, '.tools', 'swift-package')

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
  const python = await findPython()
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
      command: python,
      args: [
        program,
        `--data=${data}`,
        `--users=${users}`,
        `--port=${port}`,
        ...(bucket === undefined ? [] : [`--bucket=${bucket}`]),
        ...(forgetAfterS === undefined ? [] : [`--forget-after=${forgetAfterS}`]),
      ],
      env: {
        PATH: '/usr/bin:/bin',
        PYTHONHOME: join(installFolder, 'usr'),
        PYTHONPATH: join(installFolder, 'usr', 'lib', 'python3', 'dist-packages'),
        LD_LIBRARY_PATH: libraryPath(installFolder),
      },
      cwd: home,
      logFile,
    })
    try {
      await waitUntilReady(server, async () => await answers(port), { timeoutMs: 60_000 })
    } catch (error) {
      await server.stop()
      throw error
    }
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

async function answers(port: number): Promise<true | undefined> {
  try {
    // The S3 API rejects unsigned requests.
    const answer = await fetch(`http://${loopback}:${port}/`, { signal: AbortSignal.timeout(2_000) })
    await answer.body?.cancel()
    return answer.status < 500 ? true : undefined
  } catch {
    return undefined
  }
}

/** The machine's Python may lack a library of Swift. */
async function findPython(): Promise<string> {
  const found = await pythonIn(installFolder)
  if (found !== undefined) return found
  if (!(await hasPackages())) throw new Error('OpenStack Swift is taken from the packages of Debian or Ubuntu')
  try {
    await unpackPackages(installFolder, listPackages)
  } catch (error) {
    if ((await pythonIn(installFolder)) === undefined) throw error
  }
  const unpacked = await pythonIn(installFolder)
  if (unpacked === undefined) throw new Error('the packages of OpenStack Swift hold no Python')
  return unpacked
}

async function pythonIn(folder: string): Promise<string | undefined> {
  const names = await readdir(join(folder, 'usr', 'bin')).catch(() => [])
  for (const name of names) {
    if (!/^python3\.\d+$/.test(name)) continue
    const path = join(folder, 'usr', 'bin', name)
    if ((await stat(path)).isFile()) return path
  }
  return undefined
}

async function listPackages(apt: readonly string[]): Promise<string[]> {
  const dependencies = await readDependencies(apt, 'python3-swift')
  const needed = new Set<string>(['python3-swift'])
  for (const item of needed) {
    for (const dependency of dependencies.get(item) ?? []) {
      if (/^(?:python3|lib)/.test(dependency) && !alwaysThere.has(dependency)) needed.add(dependency)
    }
  }
  return [...needed]
}
