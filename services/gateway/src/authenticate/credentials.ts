import { type ParsedKey, keyPrefix, parseKey } from '@postern/api-key'

/** RFC 9110, section 11.6.2. */
export type Credentials =
  | { readonly kind: 'api_key'; readonly key: ParsedKey }
  | { readonly kind: 'bearer'; readonly token: string }
  /** An API key without `ApiKey` and one space. */
  | { readonly kind: 'misplaced_key' }
  /** `scheme` is the one that the client tried. */
  | { readonly kind: 'malformed'; readonly scheme: 'ApiKey' | 'Bearer' | undefined }

const longest = 8200
const tokenPattern = /^[A-Za-z0-9\-._~+/]+=*$/

/**
 * A checksum finds mistyped keys without I/O. `keysAsTokens` accepts API keys as bearer tokens, for identity providers.
 */
export function parseCredentials(header: string, keysAsTokens = false): Credentials {
  const credentials = readCredentials(header, keysAsTokens)
  const isKeyAsTold = plainKeyPattern.test(header) || (keysAsTokens && plainBearerKeyPattern.test(header))
  if (credentials.kind === 'api_key' || isKeyAsTold) return credentials
  return holdsKey(header) ? { kind: 'misplaced_key' } : credentials
}

/** The form is right, so a fault is in the key itself. */
const plainKeyPattern = /^apikey postern_[0-9A-Za-z]*$/i
const plainBearerKeyPattern = /^bearer postern_[0-9A-Za-z]*$/i
const keyPattern = new RegExp(`${keyPrefix}[0-9A-Za-z]{20}`, 'i')

/** Whether a text contains a key: plain, percent-encoded, or in base64 as in `Basic`. */
export function holdsKey(text: string): boolean {
  if (text.length > longest) return false
  if (keyPattern.test(text)) return true
  if (text.includes('%') && keyPattern.test(text.replaceAll(/%5f/gi, '_'))) return true
  return text.split(/[\s,]+/).some((part) => keyPattern.test(Buffer.from(part, 'base64').toString('latin1')))
}

function readCredentials(header: string, keysAsTokens: boolean): Credentials {
  const space = header.indexOf(' ')
  if (space === -1 || header.length > longest) return { kind: 'malformed', scheme: schemeOf(header) }
  const scheme = schemeOf(header.slice(0, space))
  const value = header.slice(space + 1)
  if (scheme === 'ApiKey' || (keysAsTokens && scheme === 'Bearer' && value.startsWith(keyPrefix))) {
    const key = parseKey(value)
    return key === undefined ? { kind: 'malformed', scheme: 'ApiKey' } : { kind: 'api_key', key }
  }
  if (scheme === 'Bearer' && tokenPattern.test(value)) return { kind: 'bearer', token: value }
  return { kind: 'malformed', scheme }
}

function schemeOf(text: string): 'ApiKey' | 'Bearer' | undefined {
  if (text === 'ApiKey') return 'ApiKey'
  switch (text.toLowerCase()) {
    case 'apikey':
      return 'ApiKey'
    case 'bearer':
      return 'Bearer'
    default:
      return undefined
  }
}
