export type JsonFaultKind =
  | 'syntax'
  | 'too_deep'
  | 'duplicate_key'
  | 'forbidden_key'
  | 'inexact_number'
  | 'invalid_text'

export interface JsonFault {
  readonly kind: JsonFaultKind
  readonly path: readonly (string | number)[]
  readonly offset: number
}

/**
 * Finds the first fault of a text as I-JSON (RFC 7493): also `__proto__`, NUL and nesting beyond `maxDepth`. JSON.parse
 * accepts every text without a fault.
 */
export function findJsonFault(text: string, maxDepth: number): JsonFault | undefined {
  const scanner = new Scanner(text, maxDepth)
  try {
    scanner.document()
    return undefined
  } catch (error) {
    if (error instanceof ScanError) return { kind: error.kind, path: scanner.path, offset: error.offset }
    throw error
  }
}

class ScanError extends Error {
  readonly kind: JsonFaultKind
  readonly offset: number

  constructor(kind: JsonFaultKind, offset: number) {
    super(kind)
    this.kind = kind
    this.offset = offset
  }
}

const tab = 0x09
const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20
const quote = 0x22
const plus = 0x2b
const comma = 0x2c
const minus = 0x2d
const point = 0x2e
const zero = 0x30
const nine = 0x39
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

const exactDigits = 15
const printedDigits = 17

const fewNames = 12

class Scanner {
  readonly path: (string | number)[] = []
  readonly #text: string
  readonly #maxDepth: number
  #at = 0

  constructor(text: string, maxDepth: number) {
    this.#text = text
    this.#maxDepth = maxDepth
  }

  document(): void {
    this.#value()
    this.#space()
    if (this.#at !== this.#text.length) this.#fail('syntax')
  }

  #fail(kind: JsonFaultKind, offset: number = this.#at): never {
    throw new ScanError(kind, offset)
  }

  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (code !== space && code !== lineFeed && code !== carriageReturn && code !== tab) return
      this.#at += 1
    }
  }

  #peek(): number {
    this.#space()
    return this.#text.charCodeAt(this.#at)
  }

  #value(): void {
    const code = this.#peek()
    if (code === quote) this.#string()
    else if (code === openBrace) this.#object()
    else if (code === openBracket) this.#array()
    else if (code === minus || (code >= zero && code <= nine)) this.#number()
    else if (!this.#word('true') && !this.#word('false') && !this.#word('null')) this.#fail('syntax')
  }

  #word(word: string): boolean {
    if (!this.#text.startsWith(word, this.#at)) return false
    this.#at += word.length
    return true
  }

  #object(): void {
    if (this.path.length === this.#maxDepth) this.#fail('too_deep')
    this.#at += 1
    if (this.#peek() === closeBrace) {
      this.#at += 1
      return
    }
    const names: string[] = []
    let many: Set<string> | undefined
    for (;;) {
      if (this.#peek() !== quote) this.#fail('syntax')
      const start = this.#at
      const name = this.#name()
      this.path.push(name)
      if (name === '__proto__') this.#fail('forbidden_key', start)
      if (many === undefined) {
        if (names.includes(name)) this.#fail('duplicate_key', start)
        names.push(name)
        if (names.length === fewNames) many = new Set(names)
      } else if (many.size === many.add(name).size) {
        this.#fail('duplicate_key', start)
      }
      if (this.#peek() !== colon) this.#fail('syntax')
      this.#at += 1
      this.#value()
      this.path.pop()
      const next = this.#peek()
      if (next !== comma && next !== closeBrace) this.#fail('syntax')
      this.#at += 1
      if (next === closeBrace) return
    }
  }

  #array(): void {
    if (this.path.length === this.#maxDepth) this.#fail('too_deep')
    this.#at += 1
    if (this.#peek() === closeBracket) {
      this.#at += 1
      return
    }
    for (let index = 0; ; index += 1) {
      this.path.push(index)
      this.#value()
      this.path.pop()
      const next = this.#peek()
      if (next !== comma && next !== closeBracket) this.#fail('syntax')
      this.#at += 1
      if (next === closeBracket) return
    }
  }

  #name(): string {
    const start = this.#at
    const isPlain = this.#string()
    if (isPlain) return this.#text.slice(start + 1, this.#at - 1)
    return String(JSON.parse(this.#text.slice(start, this.#at)))
  }

  #string(): boolean {
    const text = this.#text
    let isPlain = true
    let at = this.#at + 1
    for (;;) {
      const code = text.charCodeAt(at)
      if (code === quote) break
      if (!(code >= space)) this.#fail('syntax', at)
      if (code === backslash) {
        isPlain = false
        at = this.#escape(at)
      } else {
        at += 1
      }
    }
    this.#at = at + 1
    return isPlain
  }

  #escape(at: number): number {
    if (this.#text[at + 1] !== 'u') {
      if (!'"\\/bfnrt'.includes(this.#text[at + 1] ?? ' ')) this.#fail('syntax', at)
      return at + 2
    }
    const unit = this.#hex(at)
    if (unit === 0) this.#fail('invalid_text', at)
    if (unit < 0xd800 || unit > 0xdfff) return at + 6
    const isPair = unit < 0xdc00 && this.#text.startsWith('\\u', at + 6)
    const second = isPair ? this.#hex(at + 6) : 0
    if (second < 0xdc00 || second > 0xdfff) this.#fail('invalid_text', at)
    return at + 12
  }

  #hex(at: number): number {
    const digits = this.#text.slice(at + 2, at + 6)
    if (!/^[0-9A-Fa-f]{4}$/.test(digits)) this.#fail('syntax', at)
    return Number.parseInt(digits, 16)
  }

  #number(): void {
    const start = this.#at
    const text = this.#text
    if (text.charCodeAt(this.#at) === minus) this.#at += 1
    if (text.charCodeAt(this.#at) === zero) this.#at += 1
    else this.#digits()
    let isInteger = true
    if (text.charCodeAt(this.#at) === point) {
      isInteger = false
      this.#at += 1
      this.#digits()
    }
    const mark = text[this.#at]
    const hasExponent = mark === 'e' || mark === 'E'
    if (hasExponent) {
      this.#at += 1
      const sign = text.charCodeAt(this.#at)
      if (sign === plus || sign === minus) this.#at += 1
      this.#digits()
    }
    // A double can have three hundred zeros behind the point.
    const isNear = !hasExponent && this.#at - start <= 300
    if (isNear && this.#at - this.#firstDigit(start) <= (isInteger ? exactDigits : printedDigits)) return
    if (!isExact(text.slice(start, this.#at), isInteger && !hasExponent)) this.#fail('inexact_number', start)
  }

  #firstDigit(start: number): number {
    let at = start
    while (at < this.#at && this.#text.charCodeAt(at) <= zero) at += 1
    return at
  }

  #digits(): void {
    const start = this.#at
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (!(code >= zero && code <= nine)) break
      this.#at += 1
    }
    if (this.#at === start) this.#fail('syntax')
  }
}

/** Whether a double keeps all digits of an integer, or 17 of another number (RFC 7493, section 2.2). */
function isExact(literal: string, isInteger: boolean): boolean {
  const value = Number(literal)
  if (!Number.isFinite(value)) return false
  const given = decimalOf(literal)
  if (given.digits === '') return true
  if (value === 0) return false
  if (isInteger ? BigInt(literal) === BigInt(value) : given.digits.length <= printedDigits) return true
  const held = decimalOf(String(value))
  return given.digits === held.digits && given.exponent === held.exponent
}

/** Returns the significant digits, and the exponent of the last one. */
export function decimalOf(literal: string): { readonly digits: string; readonly exponent: number } {
  const [mantissa = '', power = '0'] = literal.replace('-', '').split(/e(?=[+-]?[0-9]+$)/i)
  const [whole = '', fraction = ''] = mantissa.split('.')
  const all = whole + fraction
  let start = 0
  let end = all.length
  while (start < end && all.charCodeAt(start) === zero) start += 1
  while (end > start && all.charCodeAt(end - 1) === zero) end -= 1
  return { digits: all.slice(start, end), exponent: Number(power) - fraction.length + (all.length - end) }
}
