import { join } from 'node:path'
import {
  alwaysThere,
  firstLine,
  hasPackages,
  isProgram,
  libraryPath,
  readDependencies,
  unpackPackages,
} from '../distribution-packages.ts'
import { repositoryRoot } from '../paths.ts'

/** An unpacked program of the distribution. */
export interface DebianProgram {
  /** The root folder of the unpacked packages. */
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
}

/**
 * Unpacks a package of the distribution (Debian, Ubuntu) and its libraries, without root, once for all test files. `program` is
 * a path in it. Returns the reason if that is impossible.
 */
export async function findDebianProgram(packageName: string, program: string): Promise<DebianProgram | string> {
  const folder = join(repositoryRoot, '.tools', `${packageName}-package`)
  const found = { folder, env: { PATH: '/usr/bin:/bin', LD_LIBRARY_PATH: libraryPath(folder) } }
  if (await isProgram(join(folder, program))) return found
  if (!(await hasPackages())) return `this is no Debian or Ubuntu to take ${packageName} from`
  try {
    await unpackPackages(folder, async (apt) => await listWithLibraries(apt, packageName))
  } catch (error) {
    // Another test file may have unpacked it.
    if (await isProgram(join(folder, program))) return found
    return `the package ${packageName} could not be unpacked: ${firstLine(error)}`
  }
  return (await isProgram(join(folder, program))) ? found : `the package ${packageName} holds no ${program}`
}

/** The package and its libraries. Those of the C library only if the machine's differ. */
export async function listWithLibraries(
  apt: readonly string[],
  packageName: string,
  left: ReadonlySet<string> = alwaysThere,
): Promise<string[]> {
  const dependencies = await readDependencies(apt, packageName)
  if (dependencies.size === 0) throw new Error(`the package lists do not know ${packageName}`)
  const needed = new Set([packageName])
  // The loop also visits members that it adds.
  for (const item of needed) {
    for (const dependency of dependencies.get(item) ?? []) {
      if (/^(?:lib|mariadb-common|mysql-common)/.test(dependency) && !left.has(dependency)) needed.add(dependency)
    }
  }
  return [...needed]
}
