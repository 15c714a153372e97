/** The parts of an HTTP message that a signature can cover. */
export interface SignedMessage {
  /** Of a request. */
  readonly method?: string
  /** Request target as on the request line (RFC 9112 §3.2); origin form where a path or query is asked for. */
  readonly target?: string
  readonly scheme?: 'http' | 'https'
  /** The Host header or `:authority` of a request. */
  readonly authority?: string
  /** Of a response. */
  readonly status?: number
  /** Values of the field of this lower-case name, one an occurrence and in their order; none when it is absent. */
  fields(name: string): readonly string[]
}

/** A covered component: a bare name, or a name with the parameter `name` (RFC 9421 §2.2.8). */
export type ComponentIdentifier = string | { readonly component: '@query-param'; readonly name: string }

// RFC 9421 §2.5: only ASCII, and no line feed within a value, or one component could pass for two.
const signablePattern = /^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/

/** Tells whether a value can stand in a signature base: printable ASCII, without white space around it. */
export function isSignable(value: string): boolean {
  return signablePattern.test(value)
}

/**
 * Builds the signature base of a message (RFC 9421 §2.5): a line for each covered component, then the parameters as they
 * stand in `Signature-Input` after the label. Gives undefined when it cannot be built: a component that the message does
 * not have, that occurs twice in the list, that is not known here, or whose value is not signable.
 *
 * Known are the derived components of §2.2 and fields (§2.1) without parameters.
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

/** Gives the value of one component (RFC 9421 §2.1, §2.2), or undefined when the message does not have it. */
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

/** RFC 9421 §2.1: occurrences without the white space around them, folded lines unfolded, joined by a comma. */
function fieldValue(occurrences: readonly string[]): string | undefined {
  if (occurrences.length === 0) return undefined
  return occurrences.map((value) => value.split(foldPattern).map(trimBlanks).join(' ')).join(', ')
}

const foldPattern = /\r?\n(?=[ \t])/

// By hand: for a pattern like /[ \t]+$/ an engine begins anew at each blank, and a header full of them keeps a service busy
// for a second, before it knows who has sent it.
function trimBlanks(text: string): string {
  let start = 0
  let end = text.length
  while (isBlank(text, start)) start += 1
  while (isBlank(text, end - 1)) end -= 1
  return text.slice(start, end)
}

/** Beyond the text there is no blank. */
function isBlank(text: string, at: number): boolean {
  const code = text.codePointAt(at)
  return code === 0x20 || code === 0x09
}

/** RFC 9421 §2.2.3: lower case, without the default port of the scheme. */
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

/** RFC 9421 §2.2.6 and §2.2.7: the query with its question mark, which also stands for a query that is absent. */
function splitTarget({ target }: SignedMessage): { readonly path: string; readonly query: string } | undefined {
  if (target === undefined || !target.startsWith('/')) return undefined
  const mark = target.indexOf('?')
  return mark === -1 ? { path: target, query: '?' } : { path: target.slice(0, mark), query: target.slice(mark) }
}

/** RFC 9421 §2.2.8: decoded as a form field and encoded again; a name that occurs twice is refused, not chosen from. */
function queryParameter(message: SignedMessage, name: string): string | undefined {
  const [value, ...others] = [...new URLSearchParams(splitTarget(message)?.query)].flatMap(([key, text]) =>
    percentEncode(key) === name ? [percentEncode(text)] : [],
  )
  return others.length === 0 ? value : undefined
}

/** The percent-encode set of forms, with a space as %20. */
function percentEncode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()~]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
