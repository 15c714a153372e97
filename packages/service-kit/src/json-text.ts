/** JSON that is sent without parsing. */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  static list(texts: readonly string[]): JsonTexts {
    return new JsonTexts(texts)
  }
}

/** An array of values that are JSON already. */
export class JsonTexts {
  readonly #items: readonly string[]

  constructor(items: readonly string[]) {
    this.#items = items
  }

  get text(): string {
    return `[${this.#items.join(',')}]`
  }

  /** HOT PATH: encoded item by item, because one string of a whole page is slow. */
  get bytes(): Buffer {
    if (this.#items.length === 0) return Buffer.from('[]')
    const length = this.#items.reduce((sum, item) => sum + item.length + 1, 1)
    let bytes: Buffer = Buffer.allocUnsafe(length + (length >> 4))
    let at = bytes.write('[')
    for (const item of this.#items) {
      if (at + item.length * maxBytesPerCharacter >= bytes.length)
        bytes = growBuffer(bytes, at, Buffer.byteLength(item) + 1)
      at += bytes.write(item, at)
      bytes[at] = comma
      at += 1
    }
    bytes[at - 1] = closingBracket
    return bytes.subarray(0, at)
  }
}

const comma = 0x2c
const closingBracket = 0x5d
/** RFC 3629, section 3. */
const maxBytesPerCharacter = 3

function growBuffer(bytes: Buffer, at: number, more: number): Buffer {
  if (at + more <= bytes.length) return bytes
  const larger = Buffer.allocUnsafe((at + more) * 2)
  bytes.copy(larger, 0, 0, at)
  return larger
}

export function valueOf(value: unknown): unknown {
  if (!(value instanceof JsonText || value instanceof JsonTexts)) return value
  const read: unknown = JSON.parse(value.text)
  return read
}

export function textOf(value: unknown): string {
  return value instanceof JsonText ? value.text : JSON.stringify(value)
}

export function contentOf(value: unknown): string | Buffer {
  return value instanceof JsonTexts ? value.bytes : textOf(value)
}
