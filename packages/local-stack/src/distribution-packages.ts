import { execFile } from 'node:child_process'
import { access, constants, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

const aptTimeoutMs = 180_000

export async function findOnPath(name: string): Promise<string | undefined> {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    // Relative entries depend on the working directory.
    if (!folder.startsWith('/')) continue
    if (await isProgram(join(folder, name))) return join(folder, name)
  }
  return undefined
}

export async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

export async function hasPackages(): Promise<boolean> {
  return (await findOnPath('apt-get')) !== undefined && (await findOnPath('dpkg')) !== undefined
}

/** Without root. `list` receives options for apt-cache and returns package names. `sources` replaces sources.list. */
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
  // apt's sandbox user could not write into our folder.
  const apt = ['-qq', '-o', 'APT::Sandbox::User=']
  if (sources === undefined) {
    try {
      await download(apt)
      return
    } catch {
      // The machine's package lists are empty or outdated.
    }
  }
  const lists = join(work, 'lists')
  const cache = join(work, 'cache')
  await mkdir(join(lists, 'partial'), { recursive: true })
  await mkdir(join(cache, 'archives', 'partial'), { recursive: true })
  const own = [...apt, '-o', `Dir::State::lists=${lists}`, '-o', `Dir::Cache=${cache}`, '-o', 'Acquire::Languages=none']
  if (sources !== undefined) {
    await writeFile(join(work, 'sources.list'), `${sources}\n`)
    own.push('-o', `Dir::Etc::sourcelist=${join(work, 'sources.list')}`, '-o', 'Dir::Etc::sourceparts=-')
  }
  await execute('apt-get', [...own, 'update'], { timeout: aptTimeoutMs })
  await download(own)
}

/** Every system that runs Node has them, and versions must not be mixed. */
const alwaysThere: ReadonlySet<string> = new Set(['libc6', 'libgcc-s1', 'libcrypt1'])

async function readDependencies(apt: readonly string[], name: string): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>()
  let text: string
  try {
    text = (await execute('apt-cache', [...apt, 'depends', '--important', '--recurse', name], { maxBuffer: 2 ** 26 }))
      .stdout
  } catch {
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
    if (!isAlternative) current.push(dependency)
    isAlternative = bar === '|'
  }
  return found
}

export interface PackageChoice {
  /** Matches the names of the dependencies to unpack. Default: libraries. */
  readonly needed?: RegExp
  /** Dependencies that the machine has. Default: the C library. */
  readonly present?: ReadonlySet<string>
}

/** Lists a package and its dependencies whose names match, at any depth. Throws if apt does not know the package. */
export async function listPackages(
  apt: readonly string[],
  name: string,
  { needed = /^lib/, present = alwaysThere }: PackageChoice = {},
): Promise<string[]> {
  const dependencies = await readDependencies(apt, name)
  if (dependencies.size === 0) throw new Error(`apt does not know the package ${name}`)
  const all = new Set([name])
  for (const item of all) {
    for (const dependency of dependencies.get(item) ?? []) {
      if (needed.test(dependency) && !present.has(dependency)) all.add(dependency)
    }
  }
  return [...all]
}

/** Returns library folders: one for the architecture, or `lib` itself. */
export function libraryPath(installFolder: string): string {
  const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  return ['usr/lib', 'lib']
    .flatMap((folder) => [join(installFolder, folder, `${machine}-linux-gnu`), join(installFolder, folder)])
    .join(':')
}

export function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.split('\n').find((line) => line.startsWith('E: ')) ?? text.split('\n')[0] ?? ''
}
