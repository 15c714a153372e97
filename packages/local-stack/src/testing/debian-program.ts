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

/** A server of the distribution, unpacked for the tests. */
export interface DebianProgram {
  /** What the packages hold lies below this. */
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
}

/**
 * Unpacks a package of the distribution (Debian and Ubuntu) and the libraries below it, without root, once for all test
 * files. `program` is the path that must be in it. Gives the reason, in one line, when it cannot be had here.
 */
export async function findDebianProgram(packageName: string, program: string): Promise<DebianProgram | string> {
  const folder = join(repositoryRoot, '.tools', `${packageName}-package`)
  const found = { folder, env: { PATH: '/usr/bin:/bin', LD_LIBRARY_PATH: libraryPath(folder) } }
  if (await isProgram(join(folder, program))) return found
  if (!(await hasPackages())) return `this is no Debian or Ubuntu to take ${packageName} from`
  try {
    await unpackPackages(folder, async (apt) => await listWithLibraries(apt, packageName))
  } catch (error) {
    // Another test file may have been quicker.
    if (await isProgram(join(folder, program))) return found
    return `the package ${packageName} could not be unpacked: ${firstLine(error)}`
  }
  return (await isProgram(join(folder, program))) ? found : `the package ${packageName} holds no ${program}`
}

/** The package and the libraries below it; those of C only where they are not the machine's own. */
export async function listWithLibraries(
  apt: readonly string[],
  packageName: string,
  left: ReadonlySet<string> = alwaysThere,
): Promise<string[]> {
  const dependencies = await readDependencies(apt, packageName)
  if (dependencies.size === 0) throw new Error(`the package lists do not know ${packageName}`)
  const needed = new Set([packageName])
  // A set may grow while it is walked: this visits what is added on the way.
  for (const item of needed) {
    for (const dependency of dependencies.get(item) ?? []) {
      if (/^(?:lib|mariadb-common|mysql-common)/.test(dependency) && !left.has(dependency)) needed.add(dependency)
    }
  }
  return [...needed]
}
