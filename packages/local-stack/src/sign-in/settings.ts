import { readFileSync } from 'node:fs'
import { loopback } from '../ports.ts'

export interface SignInSettings {
  readonly port: number
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  readonly consoleUrl: string
  readonly demoFile: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** Rejects all except loopback addresses, because this provider requires no password. */
export function readSignInSettings(env: Environment): SignInSettings {
  if (env['NODE_ENV'] === 'production') {
    throw new Error('This sign-in is for development. It does not start with NODE_ENV=production.')
  }
  const port = Number(requireVariable(env, 'POSTERN_PORT'))
  const host = env['POSTERN_HOST'] ?? loopback
  const issuer = env['POSTERN_OIDC_ISSUER'] ?? `http://${loopback}:${port}`
  const consoleUrl = requireVariable(env, 'POSTERN_CONSOLE_URL')
  const addresses = { POSTERN_HOST: `http://${host}`, POSTERN_OIDC_ISSUER: issuer, POSTERN_CONSOLE_URL: consoleUrl }
  for (const [name, url] of Object.entries(addresses)) {
    if (!isLoopback(url)) throw new Error(`This sign-in is for development. ${name} must be a loopback address.`)
  }
  return {
    port,
    issuer,
    consoleUrl: new URL(consoleUrl).href.replace(/\/$/, ''),
    clientId: requireVariable(env, 'POSTERN_OIDC_CLIENT_ID'),
    clientSecret: readFileSync(requireVariable(env, 'POSTERN_OIDC_CLIENT_SECRET_FILE'), 'utf8').trim(),
    demoFile: requireVariable(env, 'POSTERN_DEMO_FILE'),
  }
}

function requireVariable(env: Environment, name: string): string {
  const value = env[name]
  if (value === undefined || value === '') throw new Error(`Set ${name}.`)
  return value
}

function isLoopback(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}
