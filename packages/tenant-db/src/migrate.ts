import { createHash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Client } from 'pg'
import { connect } from './connect.ts'
import { ownerRole } from './roles.ts'

export interface MigrateOptions {
  readonly connectionString: string
  readonly schema: string
  /** Its .sql files must be named like 000001_verb_noun.sql. Other files are ignored. */
  readonly directory: string | URL
}

export class MigrationRefusedError extends Error {
  override readonly name = 'MigrationRefusedError'
}

/** Apply these before the migrations of other schemas. */
export const tenancyMigrations: MigrateOptions['directory'] = new URL('../migrations/', import.meta.url)

// Longer than a concurrent start, but short for statements that queue behind a waiting migration.
const otherMigratorTimeout = '120s'
const lockTimeout = '3s'

/**
 * Applies new files in order, each in its own transaction. Safe to run concurrently. Rejects edited files, lower numbers,
 * and databases of other releases.
 */
export async function migrate(options: MigrateOptions): Promise<{ applied: string[] }> {
  const files = await readMigrations(options.directory)
  await using connection = await connect(options.connectionString)
  const { client } = connection
  await client.query(`set role ${ownerRole}`)
  await client.query("set search_path = ''")
  // A concurrent start waits here and then finds nothing to do.
  await client.query(`set lock_timeout = '${otherMigratorTimeout}'`)
  await client.query("select pg_advisory_lock(hashtextextended('postern.migrate', 0))")
  await client.query(`set lock_timeout = '${lockTimeout}'`)
  await client.query(bookkeeping)
  const pending = findPending(options.schema, files, await readApplied(client, options.schema))
  for (const file of pending) await apply(client, options.schema, file)
  return { applied: pending.map((file) => file.name) }
}

const bookkeeping = `
  create schema if not exists postern_meta;
  create table if not exists postern_meta.migration (
    schema_name text not null,
    name text not null,
    sha256 text not null,
    applied_at timestamptz not null default now(),
    constraint migration_pk primary key (schema_name, name)
  )`

interface MigrationFile {
  readonly name: string
  readonly sql: string
  readonly sha256: string
}

const fileName = /^\d{6}_[a-z0-9]+(_[a-z0-9]+)*\.sql$/
const transactionControl = /^\s*(begin|commit|rollback|start\s+transaction)\s*;/im

async function readMigrations(directory: string | URL): Promise<MigrationFile[]> {
  const folder = directory instanceof URL ? fileURLToPath(directory) : directory
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted()
  const files: MigrationFile[] = []
  for (const name of names) {
    if (!fileName.test(name)) throw new MigrationRefusedError(`${name} is not named like 000001_verb_noun.sql`)
    if (files.at(-1)?.name.slice(0, 6) === name.slice(0, 6)) {
      throw new MigrationRefusedError(`${name} has the same number as ${files.at(-1)?.name}`)
    }
    const sql = (await readFile(join(folder, name), 'utf8')).replaceAll('\r\n', '\n')
    if (transactionControl.test(sql)) {
      throw new MigrationRefusedError(
        `${name} contains begin or commit, but each file already runs in its own transaction. Remove the statement`,
      )
    }
    files.push({ name, sql, sha256: createHash('sha256').update(sql).digest('hex') })
  }
  return files
}

async function readApplied(client: Client, schema: string): Promise<ReadonlyMap<string, string>> {
  const { rows } = await client.query<{ name: string; sha256: string }>(
    'select name, sha256 from postern_meta.migration where schema_name = $1 order by name',
    [schema],
  )
  return new Map(rows.map((row) => [row.name, row.sha256]))
}

// The first file of every schema was replaced in 1.0.0-beta.2.
const isTooOld =
  'the database comes from a release before 1.0.0-beta.2, which cannot be upgraded. Nothing was changed. ' +
  'Use a new database, as UPGRADING.md describes'

function findPending(
  schema: string,
  files: readonly MigrationFile[],
  applied: ReadonlyMap<string, string>,
): MigrationFile[] {
  const known = new Set(files.map((file) => file.name))
  const unknown = [...applied.keys()].filter((name) => !known.has(name))
  if (unknown.length > 0) {
    const [first] = files
    if (first !== undefined && !applied.has(first.name)) throw new MigrationRefusedError(isTooOld)
    throw new MigrationRefusedError(
      `schema ${schema} has migrations that this release does not know, so it belongs to a newer one: ${unknown.join(', ')}`,
    )
  }
  const last = [...applied.keys()].at(-1) ?? ''
  const pending: MigrationFile[] = []
  for (const file of files) {
    const sha256 = applied.get(file.name)
    if (sha256 === undefined) {
      if (file.name < last) {
        throw new MigrationRefusedError(
          `${schema}: ${file.name} has a lower number than ${last}, which is already applied. Give it a higher number`,
        )
      }
      pending.push(file)
    } else if (sha256 !== file.sha256) {
      throw new MigrationRefusedError(
        `${schema}: ${file.name} was changed after it was applied. Restore it and make the change in a new file`,
      )
    }
  }
  return pending
}

async function apply(client: Client, schema: string, file: MigrationFile): Promise<void> {
  await client.query('begin')
  try {
    // First, so that a second process waits for the primary key and fails.
    await client.query('insert into postern_meta.migration (schema_name, name, sha256) values ($1, $2, $3)', [
      schema,
      file.name,
      file.sha256,
    ])
    await client.query(file.sql)
    await client.query('commit')
  } catch (cause) {
    await client.query('rollback').catch(() => undefined)
    throw new Error(`migration ${file.name} of ${schema} failed and was rolled back`, { cause })
  }
}
