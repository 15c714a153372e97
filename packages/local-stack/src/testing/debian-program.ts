import { join } from 'node:path'
import {
  type PackageChoice,
  firstLine,
  hasPackages,
  libraryPath,
  listPackages,
  unpackPackages,
} from '../distribution-packages.ts'
import { repositoryRoot } from '../paths.ts'
import { exists } from '../server-account.ts'

export interface DebianProgram {
  /** The root folder of the unpacked packages. */
  readonly folder: string
  readonly command: string
  readonly env: Readonly<Record<string, string>>
}

export interface DebianProgramOptions extends PackageChoice {
  /** Below `.tools`. */
  readonly folder?: string
  /** Replaces sources.list. */
  readonly sources?: string | undefined
}

/** Unpacks a package without root (Debian, Ubuntu). `program` is a path in it. Returns the reason if that is impossible. */
export async function findDebianProgram(
  packageName: string,
  program: string,
  { folder = `${packageName}-package`, sources, ...list }: DebianProgramOptions = {},
): Promise<DebianProgram | string> {
  const root = join(repositoryRoot, '.tools', folder)
  const command = join(root, program)
  const found = { folder: root, command, env: { PATH: '/usr/bin:/bin', LD_LIBRARY_PATH: libraryPath(root) } }
  if (await exists(command)) return found
  if (!(await hasPackages())) return `${packageName} is a package of Debian and Ubuntu, and this machine has no apt`
  try {
    await unpackPackages(root, async (apt) => await listPackages(apt, packageName, list), sources)
  } catch (error) {
    // Another process may have unpacked it.
    if (await exists(command)) return found
    return `the package ${packageName} could not be unpacked: ${firstLine(error)}`
  }
  return (await exists(command)) ? found : `the package ${packageName} does not contain ${program}`
}
