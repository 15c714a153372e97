import { z } from 'zod'
import { line } from './fields.ts'
import { SourceFailure } from '../failure.ts'

/** What we say of each request ourselves, some of it to other origins as well: none of it may carry a secret. */
const ownHeader =
  /^(?:accept|accept-.*|host|user-agent|content-.*|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|range|if-.*|proxy-.*|referer|origin)$/i

/** How a source knows who asks. What is secret is among the connector's secrets. */
export const staticAuthSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  z.strictObject({ kind: z.literal('basic'), username: line(255).regex(/^[^:]*$/) }),
  z.strictObject({ kind: z.literal('bearer') }),
  z.strictObject({
    kind: z.literal('header'),
    name: z
      .string()
      .regex(/^[A-Za-z][A-Za-z0-9-]{0,63}$/)
      .refine((name) => !ownHeader.test(name), 'must not be a header that each request has anyway'),
  }),
])
export type StaticAuth = z.output<typeof staticAuthSchema>

export type Secrets = Readonly<Record<string, string | undefined>>

/** `password` for basic, `token` for bearer and header. */
export const staticSecretNames: readonly string[] = ['password', 'token']

/** The header that carries the credentials, if there are any. Throws a SourceFailure where a secret is missing. */
export function credentialHeaders(auth: StaticAuth, secrets: Secrets): Readonly<Record<string, string>> {
  switch (auth.kind) {
    case 'none':
      return {}
    case 'basic': {
      const pair = `${auth.username}:${requireSecret(secrets, 'password')}`
      return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
    }
    case 'bearer':
      return { authorization: `Bearer ${requireSecret(secrets, 'token')}` }
    case 'header':
      return { [auth.name.toLowerCase()]: requireSecret(secrets, 'token') }
    default:
      return auth satisfies never
  }
}

export function requireSecret(secrets: Secrets, name: string): string {
  const value = secrets[name]
  if (value === undefined || value === '') {
    throw new SourceFailure('secret_missing', `the connector's secret \`${name}\` is not set: set it`)
  }
  return value
}
