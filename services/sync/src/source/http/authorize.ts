import type { staticAuthSchema } from '@postern/contracts'
import type { z } from 'zod'
import { SourceReadError } from '../source-read-error.ts'

export type StaticAuth = z.output<typeof staticAuthSchema>

export type Secrets = Readonly<Record<string, string | undefined>>

/** `password` for basic, `token` for bearer and header. */
export const staticSecretNames: readonly string[] = ['password', 'token']

/** Throws a SourceReadError if a secret is missing or is not a valid header value. */
export function credentialHeaders(auth: StaticAuth, secrets: Secrets): Readonly<Record<string, string>> {
  switch (auth.kind) {
    case 'none':
      return {}
    case 'basic': {
      const pair = `${auth.username}:${requireSecret(secrets, 'password')}`
      return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
    }
    case 'bearer':
      return { authorization: `Bearer ${requireHeaderSecret(secrets, 'token')}` }
    case 'header':
      return { [auth.name.toLowerCase()]: requireHeaderSecret(secrets, 'token') }
    default:
      return auth satisfies never
  }
}

export function requireSecret(secrets: Secrets, name: string): string {
  const value = secrets[name]
  if (value === undefined || value === '') {
    throw new SourceReadError('secret_missing', `the connector's secret \`${name}\` is not set: set it`)
  }
  return value
}

function requireHeaderSecret(secrets: Secrets, name: string): string {
  const value = requireSecret(secrets, name)
  if (isHeaderValue(value)) return value
  const message = `the connector's secret \`${name}\` contains characters that a header cannot have, perhaps a line break: set it again without them`
  throw new SourceReadError('secret_invalid', message)
}

/** Returns whether a text is a valid header value (RFC 9110, section 5.5). */
export function isHeaderValue(text: string): boolean {
  return /^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(text)
}
