import { join } from 'node:path'
import { findOnPath, firstLine, hasPackages, isProgram, unpackPackages } from '../distribution-packages.ts'
import { repositoryRoot } from '../paths.ts'

export interface ModelChecker {
  readonly spin: string
  readonly compiler: string
}

/** Finds Spin and a C compiler on the PATH, else unpacks Spin (Debian, Ubuntu). Returns the reason if one is missing. */
export async function findModelChecker(
  path: string | undefined = process.env['PATH'],
  installFolder: string = join(repositoryRoot, '.tools', 'spin-package'),
): Promise<ModelChecker | string> {
  const compiler =
    (await findOnPath('gcc', path)) ?? (await findOnPath('cc', path)) ?? (await findOnPath('clang', path))
  if (compiler === undefined) return 'no C compiler is on the PATH (gcc, cc or clang)'
  const unpacked = join(installFolder, 'usr', 'bin', 'spin')
  const found = (await findOnPath('spin', path)) ?? ((await isProgram(unpacked)) ? unpacked : undefined)
  if (found !== undefined) return { spin: found, compiler }
  if (!(await hasPackages())) return 'Spin is not on the PATH, and this is no Debian or Ubuntu to take it from'
  try {
    await unpackPackages(installFolder, async () => ['spin'])
  } catch (error) {
    return `Spin is not on the PATH, and its package could not be unpacked: ${firstLine(error)}`
  }
  return { spin: unpacked, compiler }
}
