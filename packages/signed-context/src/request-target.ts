export type TargetRefusal =
  | 'too_long'
  | 'not_origin_form'
  | 'forbidden_character'
  | 'bad_escape'
  | 'forbidden_escape'
  | 'dot_segment'
  | 'empty_segment'

/** Path, and query without `?`. */
export type CanonicalTarget =
  | { readonly ok: true; readonly path: string; readonly query: string }
  | { readonly ok: false; readonly reason: TargetRefusal }

const defaultMaxBytes = 8192

// No escapes, no segment that begins with a dot. Linear, because a slash never follows a slash.
const plainPattern = /^(?:\/[A-Za-z0-9_~:-][A-Za-z0-9_~:.-]*)+(?:\?[A-Za-z0-9_~:.,=&@+-]*)?$/

/** `pchar` of RFC 3986 §3.3 and the slash, without `;`, which some servers treat as the end of a segment. */
const pathPattern = /^(?:[A-Za-z0-9\-._~!$&'()*+,=:@/]|%[0-9A-Fa-f]{2})*$/
/** Printable ASCII without `#`. */
const queryCharacters = /^[\x21\x22\x24-\x7e]*$/
const badEscape = /%(?![0-9A-Fa-f]{2})/

/**
 * Escaped slashes, backslashes, control and unreserved characters (RFC 3986 §6.2.2.2), and `%25` before two hexadecimal
 * digits (a second escape).
 */
const forbiddenPathEscape =
  /%(?:2[DEFdef]|5[CFcf]|7[EFef]|[01][0-9A-Fa-f]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|25[0-9A-Fa-f]{2})/
const beyondAscii = /%[89A-Fa-f]/

/**
 * Splits a raw target into path and query, or rejects what two readers could understand differently. An accepted target
 * is matched, signed, forwarded and verified byte for byte.
 */
export function canonicalTarget(rawUrl: string, maxBytes: number = defaultMaxBytes): CanonicalTarget {
  if (rawUrl.length > maxBytes) return reject('too_long')
  const mark = rawUrl.indexOf('?')
  const path = mark === -1 ? rawUrl : rawUrl.slice(0, mark)
  const query = mark === -1 ? '' : rawUrl.slice(mark + 1)
  if (plainPattern.test(rawUrl)) return { ok: true, path, query }
  const reason = pathFault(path) ?? queryFault(query)
  return reason === undefined ? { ok: true, path, query } : reject(reason)
}

function pathFault(path: string): TargetRefusal | undefined {
  if (!path.startsWith('/')) return 'not_origin_form'
  if (badEscape.test(path)) return 'bad_escape'
  if (!pathPattern.test(path)) return 'forbidden_character'
  if (path.includes('//')) return 'empty_segment'
  if (/\/\.{1,2}(?:\/|$)/.test(path)) return 'dot_segment'
  if (forbiddenPathEscape.test(path)) return 'forbidden_escape'
  return isUtf8(path) ? undefined : 'bad_escape'
}

function queryFault(query: string): TargetRefusal | undefined {
  if (!queryCharacters.test(query)) return 'forbidden_character'
  if (badEscape.test(query)) return 'bad_escape'
  // PostgreSQL texts cannot contain NUL.
  if (query.includes('%00')) return 'forbidden_escape'
  return isUtf8(query) ? undefined : 'bad_escape'
}

/** A lax decoder would read an overlong slash as a slash. */
function isUtf8(text: string): boolean {
  if (!beyondAscii.test(text)) return true
  try {
    decodeURIComponent(text)
    return true
  } catch (error) {
    if (error instanceof URIError) return false
    throw error
  }
}

function reject(reason: TargetRefusal): CanonicalTarget {
  return { ok: false, reason }
}
