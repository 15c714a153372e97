import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { firstLine, findOnPath, hasPackages, isProgram, libraryPath, unpackPackages } from '../distribution-packages.ts'
import { repositoryRoot } from '../paths.ts'
import { listWithLibraries } from './debian-program.ts'

const execute = promisify(execFile)

/** The version of the PostgreSQL that the stack runs: an older pg_dump refuses it. */
const version = 18

/** The first suite of Debian that has that version. Newer than the machine's, hence run with its own C library. */
const source = 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] https://deb.debian.org/debian forky main'

/** The programs of PostgreSQL for dumps, which the embedded one does not have. */
export interface PostgresClient {
  /** Runs one to its end; rejects with what it has said. */
  run(program: 'pg_dump' | 'pg_restore', args: readonly string[]): Promise<void>
}

/** Those of the PATH, else those of Debian, unpacked without root. Gives the reason, in one line, when they cannot be had here. */
export async function findPostgresClient(): Promise<PostgresClient | string> {
  if ((await findOnPath('pg_restore')) !== undefined && (await versionOf('pg_dump')) >= version) {
    return { run: async (program, args) => void (await execute(program, args)) }
  }
  const folder = join(repositoryRoot, '.tools', `postgresql-client-${version}-package`)
  const programs = join(folder, 'usr/lib/postgresql', String(version), 'bin')
  if (!(await isProgram(join(programs, 'pg_dump')))) {
    if (!(await hasPackages())) return `there is no pg_dump ${version} on the PATH, and no Debian to take it from`
    const list = async (apt: readonly string[]): Promise<readonly string[]> =>
      await listWithLibraries(apt, `postgresql-client-${version}`, new Set())
    try {
      await unpackPackages(folder, list, source)
    } catch (error) {
      if (!(await isProgram(join(programs, 'pg_dump')))) {
        return `there is no pg_dump ${version} on the PATH, and the package could not be unpacked: ${firstLine(error)}`
      }
    }
  }
  const loader = join(
    folder,
    process.arch === 'arm64' ? 'usr/lib/ld-linux-aarch64.so.1' : 'usr/lib64/ld-linux-x86-64.so.2',
  )
  return {
    run: async (program, args) => {
      await execute(loader, ['--library-path', libraryPath(folder), join(programs, program), ...args])
    },
  }
}

async function versionOf(program: string): Promise<number> {
  const { stdout } = await execute(program, ['--version']).catch(() => ({ stdout: '' }))
  return Number(/ (\d+)/.exec(stdout)?.[1] ?? 0)
}
