import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { KeyRing } from '@postern/signed-context'
import { operatorKeyName, parseKeyRing, parseOperatorCredential } from '@postern/signed-context'
import { unavailableError, usageError } from './cli-error.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export interface Settings {
  readonly keysUrl: URL
  /** Signs as the operator; a secret. */
  readonly signing: KeyRing
  /** Signs tenant assertions; a secret. */
  readonly assertions: KeyRing
  /** `operator`, or `operator-NAME`. The audit trail shows the name. */
  readonly signer: string
}

const repositoryRoot = join(import.meta.dirname, '..', '..', '..')

/**
 * Reads each setting from its variable, the file that NAME_FILE names, or the files of `npm start` in POSTERN_HOME.
 * Throws a CliError without the value.
 */
export async function readSettings(env: Environment): Promise<Settings> {
  const home = homeOf(env)
  const assertions = await readRing(env, home, 'POSTERN_ASSERTION_KEYS')
  const keysUrl = await readKeysUrl(env, home)
  return { keysUrl, assertions, ...(await readOperator(env, home)) }
}

/** Returns the shared ring that derives credentials of operators; a secret. */
export async function readOperatorRing(env: Environment): Promise<KeyRing> {
  return await readRing(env, homeOf(env), 'POSTERN_SIGNING_OPERATOR')
}

async function readOperator(env: Environment, home: string): Promise<Pick<Settings, 'signing' | 'signer'>> {
  const text = await readSetting(env, 'POSTERN_OPERATOR_CREDENTIAL')
  if (text === undefined) {
    return { signing: await readRing(env, home, 'POSTERN_SIGNING_OPERATOR'), signer: operatorKeyName }
  }
  try {
    const { name, ring } = parseOperatorCredential(text)
    return { signing: ring, signer: `${operatorKeyName}-${name}` }
  } catch {
    throw usageError('POSTERN_OPERATOR_CREDENTIAL must be what `operators create` printed: name:id:secret')
  }
}

/** Relative paths start at the repository. */
function homeOf(env: Environment): string {
  return resolve(repositoryRoot, findSetting(env, 'POSTERN_HOME') ?? '.postern')
}

function findSetting(env: Environment, name: string): string | undefined {
  const value = env[name]
  return value === undefined || value === '' ? undefined : value
}

async function readRing(env: Environment, home: string, name: string): Promise<KeyRing> {
  const value = findSetting(env, name)
  const file = findSetting(env, `${name}_FILE`)
  if (value !== undefined && file !== undefined) throw usageError(`give ${name} or ${name}_FILE, not both`)
  const text = value ?? (await readSecret(file ?? join(home, 'secrets', name), name))
  try {
    return parseKeyRing(text)
  } catch (error) {
    // The message never shows the content.
    throw usageError(`${name} is not a key ring: ${error instanceof Error ? error.message : 'unreadable'}`)
  }
}

async function readSecret(path: string, name: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (isMissing(error)) {
      throw unavailableError(
        `${path} does not exist. Start the system with \`npm start\`, or set ${name} or ${name}_FILE`,
        error,
      )
    }
    throw usageError(`${name}: ${path} cannot be read`)
  }
}

export async function readSetting(env: Environment, name: string): Promise<string | undefined> {
  const value = findSetting(env, name)
  const file = findSetting(env, `${name}_FILE`)
  if (value !== undefined && file !== undefined) throw usageError(`give ${name} or ${name}_FILE, not both`)
  if (file === undefined) return value
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch {
    throw usageError(`${name}_FILE: the file cannot be read`)
  }
}

async function readKeysUrl(env: Environment, home: string): Promise<URL> {
  return await readOrigin(env, home, 'POSTERN_KEYS_URL', ['services', 'keys'])
}

export async function readSyncUrl(env: Environment): Promise<URL> {
  return await readOrigin(env, homeOf(env), 'POSTERN_SYNC_URL', ['services', 'sync'])
}

export interface GatewaySettings {
  readonly url: string
  /** A secret. */
  readonly key: string
}

export async function readGatewaySettings(env: Environment): Promise<GatewaySettings> {
  const key = await readSetting(env, 'POSTERN_API_KEY')
  if (key === undefined)
    throw usageError('set POSTERN_API_KEY or POSTERN_API_KEY_FILE to an API key; connectors need the scope admin:sync')
  return { url: await readGatewayUrl(env), key }
}

/** An origin, and the path that a proxy adds. */
export async function readGatewayUrl(env: Environment): Promise<string> {
  const url = await readHttpUrl(env, homeOf(env), 'POSTERN_URL', ['gateways', '0'])
  if (url.href !== `${url.origin}${url.pathname}` || `${url.pathname}/`.includes('/api/v1/')) {
    throw usageError(
      'POSTERN_URL must be an origin, or an origin and a path without /api/v1, such as https://bank.example/postern',
    )
  }
  return url.href
}

/** Reads an origin from its variable or the files of `npm start`. */
async function readOrigin(env: Environment, home: string, name: string, path: readonly string[]): Promise<URL> {
  const url = await readHttpUrl(env, home, name, path)
  if (url.href !== `${url.origin}/`) throw usageError(mustBeOrigin(name))
  return url
}

async function readHttpUrl(env: Environment, home: string, name: string, path: readonly string[]): Promise<URL> {
  const value = findSetting(env, name) ?? (await readStackFile(join(home, 'stack.json'), name, path))
  const url = URL.parse(value)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) throw usageError(mustBeOrigin(name))
  return url
}

const mustBeOrigin = (name: string): string => `${name} must be an origin such as http://127.0.0.1:8181`

async function readStackFile(file: string, name: string, path: readonly string[]): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (!isMissing(error)) throw usageError(`${file} cannot be read`)
    throw unavailableError(`${file} does not exist. Start the system with \`npm start\`, or set ${name}`, error)
  })
  const url = path.reduce<unknown>(getMember, parseJson(text))
  if (typeof url !== 'string') throw usageError(`${file} lacks this URL. Set ${name}`)
  return url
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function getMember(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

function isMissing(error: unknown): boolean {
  return getMember(error, 'code') === 'ENOENT'
}
