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

export interface DebianProgram {
  /** The root folder of the unpacked packages. */
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
}

/**
 * Unpacks a package and its libraries without root (Debian, Ubuntu). `program`: a path in it. Returns the reason if that is
 * impossible.
 */
export async function findDebianProgram(packageName: string, program: string): Promise<DebianProgram | string> {
  const folder = join(repositoryRoot, '.tools', `${packageName}-package`)
  const found = { folder, env: { PATH: '/usr/bin:/bin', LD_LIBRARY_PATH: libraryPath(folder) } }
  if (await isProgram(join(folder, program))) return found
  if (!(await hasPackages())) return `this is no Debian or Ubuntu to take ${packageName} from`
  try {
    await unpackPackages(folder, async (apt) => await listWithLibraries(apt, packageName))
  } catch (error) {
    if (await isProgram(join(folder, program))) return found
    return `the package ${packageName} could not be unpacked: ${firstLine(error)}`
  }
  return (await isProgram(join(folder, program))) ? found : `the package ${packageName} holds no ${program}`
}

/** Includes the C library only if the machine's differs. */
export async function listWithLibraries(
  apt: readonly string[],
  packageName: string,
  left: ReadonlySet<string> = alwaysThere,
): Promise<string[]> {
  const dependencies = await readDependencies(apt, packageName)
  if (dependencies.size === 0) throw new Error(`the package lists do not know ${packageName}`)
  const needed = new Set([packageName])
  for (const item of needed) {
    for (const dependency of dependencies.get(item) ?? []) {
      if (/^(?:lib|mariadb-common|mysql-common)/.test(dependency) && !left.has(dependency)) needed.add(dependency)
    }
  }
  return [...needed]
}
