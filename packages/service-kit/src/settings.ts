import { type KeyObject, createPrivateKey } from 'node:crypto'
import { DatabaseUrlError, parseDatabaseUrl } from '@postern/contracts/internal'
import { type KeyRing, isOperatorName, parseKeyRing } from '@postern/signed-context'
import { z } from 'zod'
import { parseRedisAddress } from './redis/address.ts'

const integer = ({ min, max, fallback }: { min: number; max: number; fallback: number }) =>
  z
    .string()
    .regex(/^[0-9]{1,15}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .default(fallback)

const url = (protocols: readonly string[]) =>
  z.string().refine((text) => protocols.some((protocol) => text.startsWith(`${protocol}://`)) && URL.canParse(text), {
    message: `must be a URL that begins with ${protocols.map((protocol) => `${protocol}://`).join(' or ')}`,
  })

const databaseUrl = z.string().superRefine((text, context) => {
  try {
    parseDatabaseUrl(text)
  } catch (error) {
    if (!(error instanceof DatabaseUrlError)) throw error
    context.addIssue({ code: 'custom', message: error.message })
  }
})

const httpUrl = url(['http', 'https']).transform((text) => text.replace(/\/+$/, ''))

function isOrigin(text: string): boolean {
  const { username, password, pathname, search, hash } = new URL(text)
  return pathname === '/' && [username, password, search, hash].every((part) => part === '')
}

/** Characters that need no escape in a URL, a cookie's `Path` or HTML. */
const plainPath = /^(?:\/[A-Za-z0-9._~-]+)*\/?$/

function isPublicUrl(text: string): boolean {
  const { username, password, pathname, search, hash } = new URL(text)
  return (
    plainPath.test(pathname) &&
    !`${pathname}/`.includes('/api/v1/') &&
    [username, password, search, hash].every((part) => part === '')
  )
}

/** The first signs; all public halves are published. */
export type SigningKeys = readonly [KeyObject, ...KeyObject[]]

const ed25519Keys = z.string().transform((text, context): SigningKeys => {
  try {
    const [signing, ...others] = (text.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g) ?? []).map((pem) =>
      createPrivateKey(pem),
    )
    const keys: SigningKeys | undefined = signing === undefined ? undefined : [signing, ...others]
    if (keys?.every(({ asymmetricKeyType }) => asymmetricKeyType === 'ed25519') === true) return keys
  } catch {
    // The parser's message could quote the key.
  }
  context.addIssue({ code: 'custom', message: 'must be an Ed25519 private key, PKCS #8 in PEM (RFC 8410), or several' })
  return z.NEVER
})

/** The kinds of values that settings have. Messages name the fault, never the value. */
export const settings = {
  integer,
  port: (fallback: number) => integer({ min: 0, max: 65_535, fallback }),
  onOff: (fallback: 'on' | 'off') =>
    z
      .enum(['on', 'off'])
      .default(fallback)
      .transform((value) => value === 'on'),
  text: (fallback: string) => z.string().min(1).default(fallback),
  databaseUrl,
  redisUrl: z.string().refine((text) => parseRedisAddress(text) !== undefined, {
    message:
      'must be redis://…, redis+sentinel://host,host/group or redis+cluster://host,host, or the same with rediss for TLS',
  }),
  httpUrl,
  httpOrigin: httpUrl
    .refine(isOrigin, { message: 'must be only scheme, host and port, such as http://host:8080, without a path' })
    .transform((text) => new URL(text).origin),
  /** An origin, or an origin and a path that a proxy removes. */
  publicUrl: httpUrl
    .refine(isPublicUrl, {
      message: 'must be an origin, or an origin and a path without /api/v1, such as https://bank.example/postern',
    })
    .transform((text) => new URL(text).href.replace(/\/$/, '')),
  /** RFC 8410. The first key signs; the others are only published. */
  ed25519Keys,
  operatorNames: z
    .string()
    .default('')
    .transform(
      (text) =>
        new Set(
          text
            .split(',')
            .map((name) => name.trim())
            .filter((name) => name !== ''),
        ),
    )
    .refine((names) => [...names].every(isOperatorName), {
      message: 'must be names of operators, separated by commas',
    }),
  /** One or two secrets, current first: `id:base64url[,id:base64url]`. */
  keyRing: z.string().transform((text, context): KeyRing => {
    try {
      return parseKeyRing(text)
    } catch {
      context.addIssue({ code: 'custom', message: 'must be id:secret[,id:secret], each secret 32 bytes in base64url' })
      return z.NEVER
    }
  }),
} as const
