import { isAbsolute, resolve } from 'node:path'
import { DatabaseUrlError, changeDatabaseUrl, parseDatabaseUrl } from '@postern/contracts/internal'
import {
  type InstallationAddresses,
  describeRoles,
  initSecrets,
  prepareDatabase,
  rotatableNames,
  rotateSecret,
  rotationSteps,
} from '@postern/installation'
import { failedError, usageError } from '../cli-error.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'
import { type Environment, readSetting } from '../settings.ts'

export async function migrateDatabase(
  context: CommandContext,
  options: OutputOptions & { readonly retireAssertionKeys?: true; readonly printRoles?: true },
): Promise<void> {
  const { env } = context
  if (options.printRoles === true) {
    await printRoles(context, options)
    return
  }
  const migratorUrl = await readUrl(env, 'POSTERN_MIGRATOR_URL')
  if (migratorUrl === undefined) throw usageError('set POSTERN_MIGRATOR_URL or POSTERN_MIGRATOR_URL_FILE')
  const database = decodeURIComponent(migratorUrl.first.pathname.slice(1))
  if (database === '') throw usageError('POSTERN_MIGRATOR_URL must end with the name of the database')
  const superuserUrl = await readUrl(env, 'POSTERN_SUPERUSER_URL')
  const done = await prepareDatabase({
    database,
    migratorUrl: migratorUrl.text,
    assertionKeys: await requireSetting(env, 'POSTERN_ASSERTION_KEYS'),
    ...(superuserUrl !== undefined && {
      superuser: {
        url: (name: string) =>
          changeDatabaseUrl(superuserUrl.text, (url) => {
            url.pathname = `/${name}`
          }),
        passwords: {
          migrator: decodeURIComponent(migratorUrl.first.password),
          keys: await requireSetting(env, 'POSTERN_PASSWORD_KEYS'),
          findings: await requireSetting(env, 'POSTERN_PASSWORD_FINDINGS'),
          universe: await requireSetting(env, 'POSTERN_PASSWORD_UNIVERSE'),
          evidence: await requireSetting(env, 'POSTERN_PASSWORD_EVIDENCE'),
          sync: await requireSetting(env, 'POSTERN_PASSWORD_SYNC'),
        },
      },
    }),
    ...(options.retireAssertionKeys === true && { retireOtherAssertionKeys: true }),
  }).catch((error: unknown) => {
    const advice = superuserUrl !== undefined && isPermissionDenied(error) ? missingRight : ''
    throw failedError(`the database could not be updated: ${messages(error)}${advice}`, error)
  })
  if (options.json) {
    printJson(context, done)
    return
  }
  for (const name of done.applied) context.print(`applied ${name}`)
  for (const id of done.retired) context.print(`assertion key ${id} is rejected in ten minutes`)
  if (done.largeObjectsOpen === true) {
    context.print(
      'every role of the database can use large objects. A superuser can run the SQL of `postern migrate --print-roles`',
    )
  }
  context.print('the database is up to date')
}

/** Prints SQL for somebody else, with placeholders for missing settings. */
async function printRoles(context: CommandContext, options: OutputOptions): Promise<void> {
  const { env } = context
  const migratorUrl = await readUrl(env, 'POSTERN_MIGRATOR_URL')
  const passwords = {
    migrator: decodeURIComponent(migratorUrl?.first.password ?? '') || undefined,
    keys: await readSetting(env, 'POSTERN_PASSWORD_KEYS'),
    findings: await readSetting(env, 'POSTERN_PASSWORD_FINDINGS'),
    universe: await readSetting(env, 'POSTERN_PASSWORD_UNIVERSE'),
    evidence: await readSetting(env, 'POSTERN_PASSWORD_EVIDENCE'),
    sync: await readSetting(env, 'POSTERN_PASSWORD_SYNC'),
  }
  const database = decodeURIComponent(migratorUrl?.first.pathname.slice(1) ?? '') || 'postern'
  const sql = describe(database, passwords)
  if (options.json) printJson(context, { sql })
  else for (const line of sql.trimEnd().split('\n')) context.print(line)
}

function describe(database: string, passwords: Parameters<typeof describeRoles>[1]): string {
  try {
    return describeRoles(database, passwords)
  } catch (error) {
    throw usageError(messages(error))
  }
}

export async function initializeSecrets(
  context: CommandContext,
  folder: string,
  options: OutputOptions & InstallationAddresses,
): Promise<void> {
  const folders = await initSecrets(absolute(folder), options).catch((error: unknown) => {
    throw usageError(messages(error))
  })
  if (options.json) printJson(context, folders)
  else for (const [component, path] of Object.entries(folders)) context.print(`${component.padEnd(10)} ${path}`)
}

export async function rotateSecretStep(
  context: CommandContext,
  folder: string,
  name: string,
  options: OutputOptions & { readonly step: string },
): Promise<void> {
  if (!rotatableNames.includes(name))
    throw usageError(`the secret ${name} does not exist. Use one of ${rotatableNames.join(' ')}`)
  const step = [...rotationSteps, 'replace' as const].find((known) => known === options.step)
  if (step === undefined)
    throw usageError(`--step must be one of ${rotationSteps.join(', ')}, or replace for password-migrator`)
  await rotateSecret(absolute(folder), name, step).catch((error: unknown) => {
    throw usageError(messages(error))
  })
  if (options.json) printJson(context, { secret: name, step })
  else
    context.print(
      `${name}: ${step} is done. Run \`secrets init\`, distribute the files and restart everything that reads them.`,
    )
}

function absolute(folder: string): string {
  return isAbsolute(folder) ? folder : resolve(folder)
}

async function requireSetting(env: Environment, name: string): Promise<string> {
  const value = await readSetting(env, name)
  if (value === undefined) throw usageError(`set ${name} or ${name}_FILE`)
  return value
}

/** A connection string and that of its first server. */
interface GivenUrl {
  readonly text: string
  readonly first: URL
}

async function readUrl(env: Environment, name: string): Promise<GivenUrl | undefined> {
  const text = await readSetting(env, name)
  if (text === undefined) return undefined
  try {
    return { text, first: new URL(parseDatabaseUrl(text).servers[0] ?? text) }
  } catch (error) {
    throw error instanceof DatabaseUrlError ? usageError(`${name} ${error.message}`) : error
  }
}

const missingRight =
  '. Give the role of POSTERN_SUPERUSER_URL the rights CREATEROLE and CREATEDB, or let somebody else run what `postern migrate --print-roles` prints'

/** SQLSTATE 42501. */
function isPermissionDenied(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (Reflect.get(cause, 'code') === '42501') return true
  }
  return false
}

/** The message of an error and its causes. Those of pg and tenant-db contain no password. */
function messages(error: unknown): string {
  const texts: string[] = []
  for (let cause = error; cause instanceof Error; cause = cause.cause) texts.push(cause.message)
  return texts.join(': ')
}
