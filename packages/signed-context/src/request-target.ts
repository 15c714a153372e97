/** Why a request target is refused. */
export type TargetRefusal =
  | 'too_long'
  | 'not_origin_form'
  | 'forbidden_character'
  | 'bad_escape'
  | 'forbidden_escape'
  | 'dot_segment'
  | 'empty_segment'

/** A target whose bytes mean the same to every reader, or why it is refused. `query` is without `?`. */
export type CanonicalTarget =
  | { readonly ok: true; readonly path: string; readonly query: string }
  | { readonly ok: false; readonly reason: TargetRefusal }

const defaultMaxBytes = 8192

// What nearly every request looks like: no escapes, no segment that begins with a dot. Linear: after each slash comes a
// character that cannot be a slash.
const plainPattern = /^(?:\/[A-Za-z0-9_~:-][A-Za-z0-9_~:.-]*)+(?:\?[A-Za-z0-9_~:.,=&@+-]*)?$/

/** `pchar` of RFC 3986 §3.3 and the slash, without `;`, which some servers take for the end of a segment. */
const pathPattern = /^(?:[A-Za-z0-9\-._~!$&'()*+,=:@/]|%[0-9A-Fa-f]{2})*$/
/** Any printable ASCII but `#`. */
const queryCharacters = /^[\x21\x22\x24-\x7e]*$/
const badEscape = /%(?![0-9A-Fa-f]{2})/

/**
 * Escapes that may not stand in a path: of a slash, a backslash, a control character, and of an unreserved character
 * (letter, digit, `-`, `.`, `_`, `~`), which means the same as the character itself (RFC 3986 §6.2.2.2) and would let one
 * resource have many spellings; and an escaped percent sign before two hexadecimal digits, an escape once decoded.
 */
const forbiddenPathEscape =
  /%(?:2[DEFdef]|5[CFcf]|7[EFef]|[01][0-9A-Fa-f]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|25[0-9A-Fa-f]{2})/
const beyondAscii = /%[89A-Fa-f]/

/**
 * Splits the raw target of a request line into path and query, or refuses it. Nothing is ever repaired: a target that is
 * accepted is matched, signed, forwarded and verified byte for byte as it came.
 *
 * Refused is all that two readers could take for different resources: any form but the origin form, `//`, dot segments,
 * `\`, `;`, `#`, control and non-ASCII bytes, bad escapes, escapes that are not UTF-8, and in the path the escapes above.
 *
 * HOT PATH: one pattern for the common request.
 */
export function canonicalTarget(rawUrl: string, maxBytes: number = defaultMaxBytes): CanonicalTarget {
  if (rawUrl.length > maxBytes) return refuse('too_long')
  const mark = rawUrl.indexOf('?')
  const path = mark === -1 ? rawUrl : rawUrl.slice(0, mark)
  const query = mark === -1 ? '' : rawUrl.slice(mark + 1)
  if (plainPattern.test(rawUrl)) return { ok: true, path, query }
  const reason = pathFault(path) ?? queryFault(query)
  return reason === undefined ? { ok: true, path, query } : refuse(reason)
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
  // PostgreSQL has no NUL in texts; no parameter can mean one.
  if (query.includes('%00')) return 'forbidden_escape'
  return isUtf8(query) ? undefined : 'bad_escape'
}

/** Escapes beyond ASCII must be UTF-8, and in its shortest form: an overlong slash would be a slash to a lax decoder. */
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

function refuse(reason: TargetRefusal): CanonicalTarget {
  return { ok: false, reason }
}
