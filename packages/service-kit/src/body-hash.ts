import { createHash } from 'node:crypto'

export interface BodyHash {
  update(chunk: Uint8Array): void
  /** Returns the hash so far in hexadecimal. */
  digest(): string
}

const formPattern = /^multipart\/form-data *; *boundary=(?:"([^"\\]{16,70})"|([^\s"\\;,]{16,70}))$/i

const maxBoundaries = 1000

/** RFC 2046, section 5.1.1. The boundary differs each time the form is sent. */
export function boundaryOf(contentType: string | undefined): string | undefined {
  const [, quoted, plain] = formPattern.exec(contentType ?? '') ?? []
  return quoted ?? plain
}

/** Hashes a body; of a form all except its boundaries. */
export function createBodyHash(boundary: string | undefined): BodyHash {
  const hash = createHash('sha256')
  if (boundary === undefined) {
    return { update: (chunk) => void hash.update(chunk), digest: () => hash.copy().digest('hex') }
  }
  const delimiter = Buffer.from(`--${boundary}`, 'latin1')
  let tail = Buffer.alloc(0)
  let length = 0
  let found = 0
  const hashBytes = (bytes: Uint8Array) => {
    hash.update(bytes)
    length += bytes.byteLength
  }
  const endPart = (bytes: Uint8Array) => {
    hashBytes(bytes)
    // The length replaces the boundary, so that the same bytes in other parts have another hash.
    hash.update(lengthBytes(length))
    length = 0
    found += 1
  }
  const nextIn = (bytes: Buffer) => (found < maxBoundaries ? bytes.indexOf(delimiter) : -1)
  const prependTail = (chunk: Buffer): Buffer => {
    if (tail.length === 0) return chunk
    if (chunk.length < delimiter.length) return Buffer.concat([tail, chunk])
    const border = Buffer.concat([tail, chunk.subarray(0, delimiter.length - 1)])
    const at = nextIn(border)
    if (at < 0) {
      hashBytes(tail)
      return chunk
    }
    endPart(border.subarray(0, at))
    return chunk.subarray(at + delimiter.length - tail.length)
  }
  return {
    update: (chunk) => {
      let rest = prependTail(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
      for (let at = nextIn(rest); at >= 0; at = nextIn(rest)) {
        endPart(rest.subarray(0, at))
        rest = rest.subarray(at + delimiter.length)
      }
      const whole = Math.max(0, rest.length - delimiter.length + 1)
      hashBytes(rest.subarray(0, whole))
      // A copy, because the next reader may release the chunk.
      tail = Buffer.from(rest.subarray(whole))
    },
    digest: () =>
      hash
        .copy()
        .update(tail)
        .update(lengthBytes(length + tail.length))
        .digest('hex'),
  }
}

function lengthBytes(length: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(length))
  return bytes
}
