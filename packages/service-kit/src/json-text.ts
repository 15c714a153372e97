/** A value that is JSON already, as a database wrote it: it is sent as it is, without being read. */
export class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** An array of values that are JSON already. */
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

  /**
   * The text in UTF-8. HOT PATH: item by item, since one string of a whole page is a large object of the heap, and to make
   * it, to measure it and to encode it takes as long as everything else that a service does about a page. An item is measured only
   * where it may not fit: that takes twice as long as to write it.
   */
  get bytes(): Buffer {
    if (this.#items.length === 0) return Buffer.from('[]')
    const length = this.#items.reduce((sum, item) => sum + item.length + 1, 1)
    // Most texts are ASCII, a byte each character, but for some.
    let bytes: Buffer = Buffer.allocUnsafe(length + (length >> 4))
    let at = bytes.write('[')
    for (const item of this.#items) {
      if (at + item.length * mostBytesACharacter >= bytes.length)
        bytes = withRoom(bytes, at, Buffer.byteLength(item) + 1)
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
/** Of one unit of UTF-16 in UTF-8 (RFC 3629 §3); a pair of two has four. */
const mostBytesACharacter = 3

/** The same bytes up to `at`, with room for so many more. */
function withRoom(bytes: Buffer, at: number, more: number): Buffer {
  if (at + more <= bytes.length) return bytes
  const larger = Buffer.allocUnsafe((at + more) * 2)
  bytes.copy(larger, 0, 0, at)
  return larger
}

/** What a value is that may be JSON already. */
export function valueOf(value: unknown): unknown {
  if (!(value instanceof JsonText || value instanceof JsonTexts)) return value
  const read: unknown = JSON.parse(value.text)
  return read
}

/** A value, which may be JSON already, as JSON. */
export function textOf(value: unknown): string {
  return value instanceof JsonText ? value.text : JSON.stringify(value)
}

/** The body of an answer, which may be JSON already, as it is sent. */
export function contentOf(value: unknown): string | Buffer {
  return value instanceof JsonTexts ? value.bytes : textOf(value)
}
