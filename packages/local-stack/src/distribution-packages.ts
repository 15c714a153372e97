import { execFile } from 'node:child_process'
import { access, constants, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

const aptTimeoutMs = 180_000

/** The program of this name on the PATH. */
export async function findOnPath(name: string, path = process.env['PATH']): Promise<string | undefined> {
  for (const folder of (path ?? '').split(delimiter)) {
    // A relative entry would make what we run depend on where we are started.
    if (!folder.startsWith('/')) continue
    if (await isProgram(join(folder, name))) return join(folder, name)
  }
  return undefined
}

/** Whether there is a program at the path. */
export async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Whether this machine has Debian's packages, and the tools to fetch and unpack them. */
export async function hasPackages(): Promise<boolean> {
  return (await findOnPath('apt-get')) !== undefined && (await findOnPath('dpkg')) !== undefined
}

/**
 * Unpacks the distribution's packages into a folder, without root. `list` names them; it is given the options that apt-cache
 * must be called with. The folder appears by a rename, whole or not at all. `sources` are lines of a sources.list in the place of
 * the machine's.
 */
export async function unpackPackages(
  installFolder: string,
  list: (apt: readonly string[]) => Promise<readonly string[]>,
  sources?: string,
): Promise<void> {
  const work = `${installFolder}.new-${process.pid}`
  await rm(work, { recursive: true, force: true })
  await mkdir(join(work, 'packages'), { recursive: true })
  try {
    await downloadPackages(work, list, sources)
    for (const name of await readdir(join(work, 'packages'))) {
      await execute('dpkg', ['-x', join(work, 'packages', name), join(work, 'root')], { timeout: aptTimeoutMs })
    }
    await rename(join(work, 'root'), installFolder).catch((error: NodeJS.ErrnoException) => {
      // Another process has unpacked the same meanwhile.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function downloadPackages(
  work: string,
  list: (apt: readonly string[]) => Promise<readonly string[]>,
  sources: string | undefined,
): Promise<void> {
  const download = async (apt: readonly string[]): Promise<void> => {
    const packages = await list(apt)
    await execute('apt-get', [...apt, 'download', ...packages], { cwd: join(work, 'packages'), timeout: aptTimeoutMs })
  }
  // Without the sandbox user, who could not write into our folder.
  const apt = ['-qq', '-o', 'APT::Sandbox::User=']
  const isDone =
    sources === undefined &&
    (await download(apt).then(
      () => true,
      () => false,
    ))
  if (!isDone) {
    // The machine's package lists are empty, as in a container, or older than the archive: fetch lists of our own.
    const lists = join(work, 'lists')
    const cache = join(work, 'cache')
    await mkdir(join(lists, 'partial'), { recursive: true })
    await mkdir(join(cache, 'archives', 'partial'), { recursive: true })
    const own = [
      ...apt,
      '-o',
      `Dir::State::lists=${lists}`,
      '-o',
      `Dir::Cache=${cache}`,
      '-o',
      'Acquire::Languages=none',
    ]
    if (sources !== undefined) {
      await writeFile(join(work, 'sources.list'), `${sources}\n`)
      own.push('-o', `Dir::Etc::sourcelist=${join(work, 'sources.list')}`, '-o', 'Dir::Etc::sourceparts=-')
    }
    await execute('apt-get', [...own, 'update'], { timeout: aptTimeoutMs })
    await download(own)
  }
}

/** The C library and what belongs to it: there on every system that runs Node, and not to be mixed with another. */
export const alwaysThere: ReadonlySet<string> = new Set(['libc6', 'libgcc-s1', 'libcrypt1'])

/** Each package that can be reached from `name`, with what it depends on. */
export async function readDependencies(apt: readonly string[], name: string): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>()
  let text: string
  try {
    text = (await execute('apt-cache', [...apt, 'depends', '--important', '--recurse', name], { maxBuffer: 2 ** 26 }))
      .stdout
  } catch {
    // apt-cache fails for a package that it does not know.
    return found
  }
  let current: string[] = []
  let isAlternative = false
  for (const line of text.split('\n')) {
    const match = /^ ( |\|)(?:Pre)?Depends: ([a-z0-9][a-z0-9.+-]*)/.exec(line)
    if (match === null) {
      if (/^[a-z0-9]/.test(line)) found.set(line, (current = []))
      continue
    }
    const [, bar, dependency = ''] = match
    // `|` says that the next line is another choice: the first one is the distribution's own.
    if (!isAlternative) current.push(dependency)
    isAlternative = bar === '|'
  }
  return found
}

/** Where programs that were unpacked find their libraries. Debian keeps libraries in a folder named for the architecture, some packages in one directly below `lib`. */
export function libraryPath(installFolder: string): string {
  const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  return ['usr/lib', 'lib']
    .flatMap((folder) => [join(installFolder, folder, `${machine}-linux-gnu`), join(installFolder, folder)])
    .join(':')
}

/** What apt and dpkg say of a failure, in one line. */
export function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.split('\n').find((line) => line.startsWith('E: ')) ?? text.split('\n')[0] ?? ''
}
