/** RFC 8037. */
export interface PublicKey {
  readonly kty?: string
  readonly crv?: string
  readonly x?: string
  readonly kid?: string
}

export interface Check {
  readonly outcome: 'true' | 'false' | 'open'
  readonly words: string
}

export interface Verdict {
  readonly kind: 'receipt' | 'attachment' | 'checkpoint' | 'signature' | 'log'
  readonly isTrue: boolean
  readonly checks: readonly Check[]
  /** For a signed document, only what the signature covers. */
  readonly content: Readonly<Record<string, unknown>>
}

/** States that the log has the hash `root` at `position`. */
export interface Checkpoint {
  readonly position: number
  readonly root: string
}

export function checkpointOf({ kind, isTrue, content }: Verdict): Checkpoint | undefined {
  const { position, root } = content
  const isOne = kind === 'checkpoint' && isTrue && typeof position === 'number' && typeof root === 'string'
  return isOne ? { position, root } : undefined
}

export class NotADocumentError extends Error {
  override readonly name = 'NotADocumentError'
}

const kinds = {
  'postern-receipt': 'receipt',
  'postern-attachment': 'attachment',
  'postern-log-checkpoint': 'checkpoint',
} as const

/**
 * Verifies receipts, checkpoints and exports of the remediation log. Log entries are unsigned and compared with a valid
 * `checkpoint`.
 */
export async function verifyDocument(
  text: string,
  keys: readonly PublicKey[],
  checkpoint?: Checkpoint,
): Promise<readonly Verdict[]> {
  const trimmed = text.trim()
  if (trimmed === '') throw new NotADocumentError('The file is empty.')
  if (/^[\w-]+\.[\w-]+\.[\w-]+$/.test(trimmed)) return [await verifySigned({ jws: trimmed }, keys)]
  const documents = parseDocuments(trimmed)
  if (documents.every((each) => typeof each['jws'] === 'string')) {
    return await Promise.all(documents.map(async (each) => await verifySigned(each, keys)))
  }
  if (documents.every((each) => typeof each['hash'] === 'string' && 'prev_hash' in each)) {
    return [await verifyLog(documents, checkpoint)]
  }
  throw new NotADocumentError('This is neither a receipt, nor a checkpoint, nor an export of the remediation log.')
}

type Document = Readonly<Record<string, unknown>>

function parseDocuments(text: string): readonly Document[] {
  let value: unknown
  try {
    value = parseJson(text)
  } catch (error) {
    if (error instanceof NotADocumentError) throw error
    try {
      value = text.split('\n').flatMap((line): unknown[] => (line.trim() === '' ? [] : [parseJson(line)]))
    } catch (errorOfLine) {
      if (errorOfLine instanceof NotADocumentError) throw errorOfLine
      throw new NotADocumentError('This is not JSON. Drop the original, unchanged file.')
    }
  }
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  const documents = list.filter(isDocument)
  if (documents.length === 0 || documents.length !== list.length)
    throw new NotADocumentError('The file contains no receipt.')
  return documents
}

/** Rejects duplicate members, which could show unsigned content to readers. */
function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  // In valid JSON, each colon outside of strings belongs to a member.
  const given = text.replaceAll(/"[^"\\]*(?:\\.[^"\\]*)*"/g, '').split(':').length - 1
  if (membersIn(value) === given) return value
  throw new NotADocumentError('A member occurs twice. Drop the original, unchanged file.')
}

function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const inner = Object.values(value).reduce((sum: number, each: unknown) => sum + membersIn(each), 0)
  return Array.isArray(value) ? inner : inner + Object.keys(value).length
}

function isDocument(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

async function verifySigned(document: Document, keys: readonly PublicKey[]): Promise<Verdict> {
  const [head = '', body = '', signature = '', ...more] = String(document['jws']).split('.')
  const header = decodeJson(head)
  const content = decodeJson(body)
  if (more.length > 0 || header === undefined || content === undefined) {
    throw new NotADocumentError('Its signature is not a compact JWS (RFC 7515).')
  }
  const kind = kindOf(header['typ'])
  const key = keys.find(({ kid, crv }) => kid === header['kid'] && crv === 'Ed25519')
  const isOurs = header['alg'] === 'EdDSA' && key !== undefined
  const isSigned = isOurs && (await isSignedBy(key, `${head}.${body}`, signature))
  const { jws: _jws, ...stated } = document
  // The document may differ from the signed content.
  const differing = Object.keys(stated).filter((field) => canonical(stated[field]) !== canonical(content[field]))
  const isBare = Object.keys(stated).length === 0
  const checks: Check[] = [
    {
      outcome: isOurs ? 'true' : 'false',
      words: isOurs
        ? 'The signing key is one that Postern publishes'
        : 'The signing key is not published by Postern: somebody else signed it, or the key was retired',
    },
    {
      outcome: isSigned ? 'true' : 'false',
      words: isSigned ? 'The signature is valid (Ed25519)' : 'The signature is not valid',
    },
    ...(isBare
      ? []
      : [
          differing.length === 0
            ? { outcome: 'true' as const, words: 'Every field matches the signature' }
            : { outcome: 'false' as const, words: `Changed after it was signed: ${differing.join(', ')}` },
        ]),
  ]
  return { kind, checks, content, isTrue: checks.every(({ outcome }) => outcome === 'true') }
}

function kindOf(type: unknown): Verdict['kind'] {
  const found = Object.entries(kinds).find(([name]) => name === type)
  return found === undefined ? 'signature' : found[1]
}

async function isSignedBy(key: PublicKey, signed: string, signature: string): Promise<boolean> {
  try {
    const jwk = { kty: key.kty ?? '', crv: key.crv ?? '', x: key.x ?? '' }
    const imported = await crypto.subtle.importKey('jwk', jwk, { name: 'Ed25519' }, false, ['verify'])
    return await crypto.subtle.verify('Ed25519', imported, decode(signature), new TextEncoder().encode(signed))
  } catch {
    return false
  }
}

async function verifyLog(entries: readonly Document[], checkpoint: Checkpoint | undefined): Promise<Verdict> {
  const last = new Map<unknown, Document>()
  const changed: unknown[] = []
  const unlinked: unknown[] = []
  for (const entry of entries) {
    // The root covers the position.
    const { hash, position: _position, ...content } = entry
    if ((await digest(new TextEncoder().encode(canonical(content)))) !== hash) changed.push(entry['position'])
    const before = last.get(entry['finding_id'])
    const isLinked =
      before === undefined
        ? entry['seq'] !== 1 || entry['prev_hash'] === null
        : entry['prev_hash'] === before['hash'] && entry['seq'] === Number(before['seq']) + 1
    if (!isLinked) unlinked.push(entry['position'])
    last.set(entry['finding_id'], entry)
  }
  const checks: readonly Check[] = [
    changed.length === 0
      ? { outcome: 'true', words: 'Every entry matches its hash' }
      : { outcome: 'false', words: `Changed: position ${changed.slice(0, 10).join(', ')}` },
    unlinked.length === 0
      ? { outcome: 'true', words: 'Every entry follows the previous one, without gaps' }
      : {
          outcome: 'false',
          words: `Does not follow the previous entry: position ${unlinked.slice(0, 10).join(', ')}`,
        },
    ...(await compareWith(checkpoint, entries)),
  ]
  const content = {
    entries: entries.length,
    findings: last.size,
    from: entries[0]?.['recorded_at'],
    to: entries.at(-1)?.['recorded_at'],
  }
  return { kind: 'log', checks, content, isTrue: checks.every(({ outcome }) => outcome !== 'false') }
}

/** The root before the first entry. Each next one hashes the previous root and the entry's hash. */
const emptyRoot = '0'.repeat(64)

async function compareWith(
  checkpoint: Checkpoint | undefined,
  entries: readonly Document[],
): Promise<readonly Check[]> {
  if (checkpoint === undefined) {
    return [{ outcome: 'open', words: 'It has no signature: verify a signed checkpoint first, then this file again' }]
  }
  if (!entries.every((entry, place) => entry['position'] === place + 1)) {
    return [{ outcome: 'open', words: 'Only a complete log can be compared with a checkpoint' }]
  }
  const { position } = checkpoint
  if (entries.length < position) {
    const words = `Incomplete: the signed checkpoint has ${position.toLocaleString()} entries`
    return [{ outcome: 'false', words }]
  }
  let root = emptyRoot
  for (const { hash } of entries.slice(0, position)) root = await digest(new TextEncoder().encode(`${root}${hash}`))
  if (root !== checkpoint.root) {
    return [{ outcome: 'false', words: 'It differs from the signed checkpoint: entries were rewritten' }]
  }
  const agrees: Check = {
    outcome: 'true',
    words: `It matches the signed checkpoint at position ${position.toLocaleString()}`,
  }
  const later = entries.length - position
  const words = `${later.toLocaleString()} entries after the checkpoint are not signed yet`
  return later === 0 ? [agrees] : [agrees, { outcome: 'open', words }]
}

export async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function decodeJson(part: string): Document | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(decode(part)))
    return isDocument(value) ? value : undefined
  } catch {
    return undefined
  }
}

function decode(part: string): Uint8Array<ArrayBuffer> {
  const bytes = atob(part.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(bytes, (byte) => byte.charCodeAt(0))
}

/** Returns canonical JSON (RFC 8785). */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isDocument(value)) return JSON.stringify(value) ?? 'undefined'
  const members = Object.keys(value).toSorted((one, other) => (one < other ? -1 : 1))
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`
}
