/** RESP2 (https://redis.io/docs/latest/develop/reference/protocol-spec/). Long bulk strings are not kept. */
export type RespValue =
  | { readonly kind: 'simple' | 'error'; readonly text: string }
  | { readonly kind: 'integer'; readonly value: number }
  | { readonly kind: 'bulk'; readonly text: string | undefined }
  | { readonly kind: 'null' }
  | { readonly kind: 'array'; readonly items: readonly RespValue[] }

export class RedisProtocolError extends Error {
  override readonly name = 'RedisProtocolError'
}

export interface RespLimits {
  readonly maxBulkBytes: number
  readonly maxValueBytes: number
  readonly maxMembers: number
}

const maxLineBytes = 16_384
const maxDepth = 8
const keptBulkBytes = 512
const newline = 10

interface OpenArray {
  readonly items: RespValue[]
  missing: number
}

export class RespReader {
  readonly #limits: RespLimits
  readonly #open: OpenArray[] = []
  #line = ''
  #bulkLeft: number | undefined
  #bulk: Buffer[] | undefined
  #lineEnd = ''
  #valueBytes = 0
  #members = 0

  constructor(limits: RespLimits) {
    this.#limits = limits
  }

  /** Returns the values that end in this chunk. Throws RedisProtocolError. */
  read(chunk: Buffer): RespValue[] {
    const values: RespValue[] = []
    let at = 0
    while (at < chunk.length) {
      const left = this.#bulkLeft
      const end = left === undefined ? this.#endOfLine(chunk, at) : Math.min(chunk.length, at + left)
      const part = chunk.subarray(at, end)
      at = end
      this.#valueBytes += part.length
      if (this.#valueBytes > this.#limits.maxValueBytes) throw new RedisProtocolError('a value is too large')
      const value = left === undefined ? this.#readLine(part) : this.#readBulk(part, left)
      const whole = value === undefined ? undefined : this.#close(value)
      if (whole === undefined) continue
      values.push(whole)
      this.#valueBytes = 0
      this.#members = 0
    }
    return values
  }

  #endOfLine(chunk: Buffer, from: number): number {
    const at = chunk.indexOf(newline, from)
    return at === -1 ? chunk.length : at + 1
  }

  #readLine(part: Buffer): RespValue | undefined {
    if (this.#line.length + part.length > maxLineBytes) throw new RedisProtocolError('a line is too long')
    this.#line += part.toString('latin1')
    if (!'+-:$*'.includes(this.#line.charAt(0))) throw new RedisProtocolError('a value has an unknown type')
    if (!this.#line.endsWith('\n')) return undefined
    if (!this.#line.endsWith('\r\n')) throw new RedisProtocolError('a line has no end')
    const [type, text] = [this.#line.charAt(0), this.#line.slice(1, -2)]
    this.#line = ''
    switch (type) {
      case '+':
        return { kind: 'simple', text }
      case '-':
        return { kind: 'error', text }
      case ':':
        return { kind: 'integer', value: readNumber(text) }
      case '$':
        return this.#openBulk(readNumber(text))
      default:
        return this.#openArray(readNumber(text))
    }
  }

  #openBulk(length: number): RespValue | undefined {
    if (length === -1) return { kind: 'null' }
    if (length < 0 || length > this.#limits.maxBulkBytes) throw new RedisProtocolError('a string has a wrong length')
    this.#bulkLeft = length + 2
    this.#bulk = length <= keptBulkBytes ? [] : undefined
    return undefined
  }

  #openArray(length: number): RespValue | undefined {
    if (length === -1) return { kind: 'null' }
    this.#members += length
    if (length < 0 || this.#members > this.#limits.maxMembers)
      throw new RedisProtocolError('an array has a wrong length')
    if (length === 0) return { kind: 'array', items: [] }
    if (this.#open.length === maxDepth) throw new RedisProtocolError('arrays are nested too deep')
    this.#open.push({ items: [], missing: length })
    return undefined
  }

  #readBulk(part: Buffer, left: number): RespValue | undefined {
    const rest = left - part.length
    const ends = Math.min(part.length, Math.max(0, 2 - rest))
    this.#lineEnd += part.subarray(part.length - ends).toString('latin1')
    // The sender owns the chunk.
    this.#bulk?.push(Buffer.from(part.subarray(0, part.length - ends)))
    this.#bulkLeft = rest
    if (rest > 0) return undefined
    const lineEnd = this.#lineEnd
    const text = this.#bulk === undefined ? undefined : Buffer.concat(this.#bulk).toString('utf8')
    this.#bulkLeft = undefined
    this.#bulk = undefined
    this.#lineEnd = ''
    if (lineEnd !== '\r\n') throw new RedisProtocolError('a string has no end')
    return { kind: 'bulk', text }
  }

  /** Returns the outermost array when it is complete. */
  #close(value: RespValue): RespValue | undefined {
    let closed = value
    for (;;) {
      const array = this.#open.at(-1)
      if (array === undefined) return closed
      array.items.push(closed)
      array.missing -= 1
      if (array.missing > 0) return undefined
      this.#open.pop()
      closed = { kind: 'array', items: array.items }
    }
  }
}

function readNumber(text: string): number {
  if (!/^-?\d{1,19}$/.test(text)) throw new RedisProtocolError('a number is malformed')
  return Number(text)
}
