import { join, resolve } from 'node:path'
import { repositoryRoot } from './paths.ts'

export interface StartOptions {
  /** POSTERN_HOME, default `.postern` in the clone. */
  readonly home: string
  /** POSTERN_PORT, default 8080. More gateways count upward. */
  readonly port: number
  readonly gateways: number
  /** POSTERN_CONSOLE_PORT. Undefined: 8090, or a free port if that is taken. */
  readonly consolePort: number | undefined
  /** POSTERN_DEMO_SCALE, default 1: multiplies the first tenant's data. */
  readonly demoScale: number
  readonly env: Readonly<Record<string, string>>
}

const own = new Set([
  'POSTERN_HOME',
  'POSTERN_HOST',
  'POSTERN_PORT',
  'POSTERN_CONSOLE_PORT',
  'POSTERN_GATEWAYS',
  'POSTERN_DEMO_SCALE',
  'POSTERN_PARENT_FD',
])

export function readStartOptions(env: Readonly<Record<string, string | undefined>>): StartOptions {
  const home = env['POSTERN_HOME']
  const gateways = readNumber(env, 'POSTERN_GATEWAYS', 1, 1, 64)
  return {
    home: home === undefined || home === '' ? join(repositoryRoot, '.postern') : resolve(repositoryRoot, home),
    port: readNumber(env, 'POSTERN_PORT', 8080, 1, 65_536 - gateways),
    gateways,
    consolePort:
      (env['POSTERN_CONSOLE_PORT'] ?? '') === '' ? undefined : readNumber(env, 'POSTERN_CONSOLE_PORT', 8090, 1, 65_535),
    demoScale: readNumber(env, 'POSTERN_DEMO_SCALE', 1, 1, 100),
    env: Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) =>
        name.startsWith('POSTERN_') && !own.has(name) && value !== undefined ? [[name, value]] : [],
      ),
    ),
  }
}

function readNumber(
  env: Readonly<Record<string, string | undefined>>,
  name: string,
  fallback: number,
  min: number,
  max: number,
): number {
  const text = env[name] ?? ''
  if (text === '') return fallback
  const value = /^[0-9]{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw new Error(`${name} must be a whole number from ${min} to ${max}`)
}
