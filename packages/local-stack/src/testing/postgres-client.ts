import { execFile } from 'node:child_process'
import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findOnPath, libraryPath } from '../distribution-packages.ts'
import { findDebianProgram } from './debian-program.ts'

const execute = promisify(execFile)

/** An older pg_dump rejects a newer server. */
const version = 18

/** The first Debian suite with that version. */
const suite = 'forky'
const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg'

/** Returns the line of sources.list for that suite, or undefined. */
async function sourceOf(suiteName: string): Promise<string | undefined> {
  const folder = '/etc/apt/sources.list.d'
  const names = await readdir(folder).catch(() => [])
  const files = ['/etc/apt/sources.list', ...names.map((name) => join(folder, name))]
  const texts = await Promise.all(files.map(async (file) => await readFile(file, 'utf8').catch(() => '')))
  const uris = [...texts.join('\n').matchAll(/^(?:URIs:|deb(?: +\[[^\]]*\])?) +(https?:\S+)/gm)].map(
    ([, uri = '']) => uri,
  )
  // The archive of security updates has no whole suite.
  const uri = uris.find((each) => !each.includes('security'))
  return uri === undefined ? undefined : `deb [signed-by=${keyring}] ${uri} ${suiteName} main`
}

/** pg_dump and pg_restore, which the embedded PostgreSQL lacks. */
export interface PostgresClient {
  /** Rejects with the program's output. */
  run(program: 'pg_dump' | 'pg_restore', args: readonly string[]): Promise<void>
}

/** Finds them on the PATH, else unpacks Debian's. Returns the reason if that is impossible. */
export async function findPostgresClient(): Promise<PostgresClient | string> {
  if ((await findOnPath('pg_restore')) !== undefined && (await versionOf('pg_dump')) >= version) {
    return { run: async (program, args) => void (await execute(program, args)) }
  }
  const sources = await sourceOf(suite)
  if (sources === undefined) return `there is no pg_dump ${version} on the PATH, and no Debian to take it from`
  // Includes the C library, because the machine's may be older.
  const options = { present: new Set<string>(), sources }
  const programs = join('usr/lib/postgresql', String(version), 'bin')
  const found = await findDebianProgram(`postgresql-client-${version}`, join(programs, 'pg_dump'), options)
  if (typeof found === 'string') return found
  const { folder } = found
  const loader = join(
    folder,
    process.arch === 'arm64' ? 'usr/lib/ld-linux-aarch64.so.1' : 'usr/lib64/ld-linux-x86-64.so.2',
  )
  return {
    run: async (program, args) => {
      await execute(loader, ['--library-path', libraryPath(folder), join(folder, programs, program), ...args])
    },
  }
}

async function versionOf(program: string): Promise<number> {
  const { stdout } = await execute(program, ['--version']).catch(() => ({ stdout: '' }))
  return Number(/ (\d+)/.exec(stdout)?.[1] ?? 0)
}
