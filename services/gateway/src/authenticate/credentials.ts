import { type ParsedKey, keyPrefix, parseKey } from '@postern/api-key'

/** RFC 9110, section 11.6.2. */
export type Credentials =
  | { readonly kind: 'api_key'; readonly key: ParsedKey }
  | { readonly kind: 'bearer'; readonly token: string }
  /** An API key without `ApiKey` and one space. */
  | { readonly kind: 'misplaced_key' }
  | { readonly kind: 'malformed'; readonly scheme: 'ApiKey' | 'Bearer' | undefined }

const maxCharacters = 8200
const tokenPattern = /^[A-Za-z0-9\-._~+/]+=*$/

/** The schemes besides `ApiKey` under which a key is accepted. */
export interface KeySchemes {
  /** Identity providers send keys as bearer tokens. */
  readonly bearer: boolean
  /** The key is the password, or the name without a password. */
  readonly basic: boolean
}

const onlyApiKey: KeySchemes = { bearer: false, basic: false }

/** A checksum finds mistyped keys without I/O. */
export function parseCredentials(header: string, accepted: KeySchemes = onlyApiKey): Credentials {
  const credentials = readCredentials(header, accepted)
  const isPlainKey = plainKeyPattern.test(header) || (accepted.bearer && plainBearerKeyPattern.test(header))
  if (credentials.kind === 'api_key' || isPlainKey) return credentials
  return containsKey(header) ? { kind: 'misplaced_key' } : credentials
}

/** The form is right, so a fault is in the key itself. */
const plainKeyPattern = /^apikey postern_[0-9A-Za-z]*$/i
const plainBearerKeyPattern = /^bearer postern_[0-9A-Za-z]*$/i
const keyPattern = new RegExp(`${keyPrefix}[0-9A-Za-z]{20}`, 'i')

/** Whether a text contains a key: plain, percent-encoded, or in base64 as in `Basic`. */
export function containsKey(text: string): boolean {
  if (text.length > maxCharacters) return false
  if (keyPattern.test(text)) return true
  if (text.includes('%') && keyPattern.test(text.replaceAll(/%5f/gi, '_'))) return true
  return text.split(/[\s,]+/).some((part) => keyPattern.test(Buffer.from(part, 'base64').toString('latin1')))
}

function readCredentials(header: string, accepted: KeySchemes): Credentials {
  const space = header.indexOf(' ')
  const scheme = schemeOf(space === -1 ? header : header.slice(0, space))
  if (space === -1 || header.length > maxCharacters) return toMalformed(space === -1 ? scheme : undefined)
  const value = header.slice(space + 1)
  if (scheme === 'ApiKey' || (accepted.bearer && scheme === 'Bearer' && value.startsWith(keyPrefix))) {
    const key = parseKey(value)
    return key === undefined ? { kind: 'malformed', scheme: 'ApiKey' } : { kind: 'api_key', key }
  }
  if (accepted.basic && scheme === 'Basic') {
    const key = keyOfBasic(value)
    if (key !== undefined) return { kind: 'api_key', key }
  }
  if (scheme === 'Bearer' && tokenPattern.test(value)) return { kind: 'bearer', token: value }
  return toMalformed(scheme)
}

function toMalformed(scheme: ReturnType<typeof schemeOf>): Credentials {
  return { kind: 'malformed', scheme: scheme === 'Basic' ? undefined : scheme }
}

/** RFC 7617: a name, a colon and a password in base64. */
function keyOfBasic(encoded: string): ParsedKey | undefined {
  const [name = '', password, ...rest] = Buffer.from(encoded, 'base64').toString('latin1').split(':')
  if (password === undefined || rest.length > 0) return undefined
  return parseKey(password === '' ? name : password)
}

function schemeOf(text: string): 'ApiKey' | 'Bearer' | 'Basic' | undefined {
  if (text === 'ApiKey') return 'ApiKey'
  switch (text.toLowerCase()) {
    case 'apikey':
      return 'ApiKey'
    case 'bearer':
      return 'Bearer'
    case 'basic':
      return 'Basic'
    default:
      return undefined
  }
}
