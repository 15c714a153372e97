import { SourceReadError } from '../source-read-error.ts'

/** A byte for the kind, and four for the length, which counts itself (PostgreSQL, section 54.7). */
const headBytes = 5
/** Kinds of messages that a server may send. */
const kinds: ReadonlySet<string> = new Set('123ACDEGHIKNRSTVWZcdnstv')
/** Authentication messages: success, a password in clear text or with MD5, and SASL. */
const signIns: ReadonlySet<number> = new Set([0, 3, 5, 10, 11, 12])

export interface Peer {
  readonly host: string
  readonly maxMessageBytes: number
}

/** The function returns complete messages and keeps the rest. It throws a SourceReadError. */
export function createMessageSplitter(peer: Peer): (bytes: Buffer) => Buffer | undefined {
  let held: Buffer[] = []
  let heldBytes = 0
  // Bytes of the current message, or of its head until that is complete.
  let wanted = headBytes
  return (bytes) => {
    held.push(bytes)
    heldBytes += bytes.length
    if (heldBytes < wanted) return undefined
    const all = held.length === 1 ? bytes : Buffer.concat(held)
    let end = 0
    wanted = headBytes
    while (end + headBytes <= all.length) {
      const length = lengthOf(all, end, peer)
      if (end + length > all.length) {
        wanted = length
        break
      }
      check(all.subarray(end, end + length), peer.host)
      end += length
    }
    held = end === all.length ? [] : [all.subarray(end)]
    heldBytes = all.length - end
    return end === 0 ? undefined : all.subarray(0, end)
  }
}

function lengthOf(bytes: Buffer, at: number, { host, maxMessageBytes }: Peer): number {
  const kind = String.fromCharCode(bytes[at] ?? 0)
  const length = bytes.readUInt32BE(at + 1)
  if (kind === 'D' && length > maxMessageBytes) {
    throw new SourceReadError('page_too_large', `a row has more than ${maxMessageBytes} bytes: read fewer \`columns\``)
  }
  if (!kinds.has(kind) || length < 4 || length > maxMessageBytes) throw notPostgresError(host)
  return length + 1
}

function check(message: Buffer, host: string): void {
  const kind = String.fromCharCode(message[0] ?? 0)
  const content = message.subarray(headBytes)
  if (kind === 'R' && content.length >= 4 && !signIns.has(content.readInt32BE())) {
    const advice = 'it requires another kind of sign-in than a password: allow scram-sha-256 for the account'
    throw new SourceReadError('not_authorized', `${host}: ${advice}`)
  }
  if ((kind === 'E' || kind === 'N') && !hasEnd(content)) throw notPostgresError(host)
}

function hasEnd(fields: Buffer): boolean {
  for (let at = 0; at < fields.length;) {
    if (fields[at] === 0) return true
    const end = fields.indexOf(0, at + 1)
    if (end === -1) return false
    at = end + 1
  }
  return false
}

export function notPostgresError(host: string, cause?: unknown): SourceReadError {
  const message = `${host} does not answer like PostgreSQL: check host, port and any proxy in between`
  return new SourceReadError('answer_broken', message, { cause })
}
