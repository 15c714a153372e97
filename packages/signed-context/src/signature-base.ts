export interface SignedMessage {
  readonly method?: string
  /** The target as in the request line (RFC 9112 §3.2). Path and query need the origin form. */
  readonly target?: string
  readonly scheme?: 'http' | 'https'
  /** The Host header or `:authority`. */
  readonly authority?: string
  readonly status?: number
  /** Values by lower-case name, one per occurrence. */
  fields(name: string): readonly string[]
}

/** A bare name, or one with the parameter `name` (RFC 9421 §2.2.8). */
export type ComponentIdentifier = string | { readonly component: '@query-param'; readonly name: string }

// RFC 9421 §2.5: ASCII without a line feed, or one component could pass for two.
const signablePattern = /^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/

export function isSignable(value: string): boolean {
  return signablePattern.test(value)
}

/**
 * Builds the signature base (RFC 9421 §2.5) for fields and derived components. Undefined if a component is missing,
 * duplicated, unknown or unsignable.
 */
export function signatureBase(
  message: SignedMessage,
  covered: readonly ComponentIdentifier[],
  parameters: string,
): string | undefined {
  const seen = new Set<string>()
  let base = ''
  for (const identifier of covered) {
    const text = identifierText(identifier)
    const value = componentValue(message, identifier)
    if (seen.has(text) || value === undefined || !isSignable(value)) return undefined
    seen.add(text)
    base += `${text}: ${value}\n`
  }
  return `${base}"@signature-params": ${parameters}`
}

/** Returns the value of a component (RFC 9421 §2.1, §2.2); undefined if the message lacks it. */
export function componentValue(message: SignedMessage, identifier: ComponentIdentifier): string | undefined {
  if (typeof identifier !== 'string') return queryParameter(message, identifier.name)
  switch (identifier) {
    case '@method':
      return message.method
    case '@target-uri':
      return targetUri(message)
    case '@authority':
      return authority(message)
    case '@scheme':
      return message.scheme
    case '@request-target':
      return message.target
    case '@path':
      return splitTarget(message)?.path
    case '@query':
      return splitTarget(message)?.query
    case '@status':
      return message.status?.toFixed(0)
    default:
      return identifier.startsWith('@') ? undefined : fieldValue(message.fields(identifier))
  }
}

function identifierText(identifier: ComponentIdentifier): string {
  return typeof identifier === 'string' ? `"${identifier}"` : `"${identifier.component}";name="${identifier.name}"`
}

/** RFC 9421 §2.1: trimmed, unfolded and joined by commas. */
function fieldValue(occurrences: readonly string[]): string | undefined {
  if (occurrences.length === 0) return undefined
  return occurrences.map((value) => value.split(foldPattern).map(trimBlanks).join(' ')).join(', ')
}

const foldPattern = /\r?\n(?=[ \t])/

// A pattern such as /[ \t]+$/ needs quadratic time.
function trimBlanks(text: string): string {
  let start = 0
  let end = text.length
  while (isBlank(text, start)) start += 1
  while (isBlank(text, end - 1)) end -= 1
  return text.slice(start, end)
}

/** Returns false beyond the end of the text. */
function isBlank(text: string, at: number): boolean {
  const code = text.codePointAt(at)
  return code === 0x20 || code === 0x09
}

/** RFC 9421 §2.2.3: lower case, without the default port. */
function authority({ authority: given, scheme }: SignedMessage): string | undefined {
  const lower = given?.toLowerCase()
  const defaultPort = scheme === 'http' ? ':80' : ':443'
  return lower?.endsWith(defaultPort) === true ? lower.slice(0, -defaultPort.length) : lower
}

function targetUri(message: SignedMessage): string | undefined {
  const host = authority(message)
  if (message.scheme === undefined || host === undefined || splitTarget(message) === undefined) return undefined
  return `${message.scheme}://${host}${message.target}`
}

/** RFC 9421 §2.2.6 and §2.2.7: the query includes its question mark. */
function splitTarget({ target }: SignedMessage): { readonly path: string; readonly query: string } | undefined {
  if (target === undefined || !target.startsWith('/')) return undefined
  const mark = target.indexOf('?')
  return mark === -1 ? { path: target, query: '?' } : { path: target.slice(0, mark), query: target.slice(mark) }
}

/** RFC 9421 §2.2.8. Undefined if the name occurs twice. */
function queryParameter(message: SignedMessage, name: string): string | undefined {
  const [value, ...others] = [...new URLSearchParams(splitTarget(message)?.query)].flatMap(([key, text]) =>
    percentEncode(key) === name ? [percentEncode(text)] : [],
  )
  return others.length === 0 ? value : undefined
}

function percentEncode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()~]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
