import { TextDecoder } from 'node:util'

/** A noncharacter (Unicode 23.7), because U+FFFD may be part of the text. */
export const undecodable = '\uFDD0'

const replacementCharacter = '\uFFFD'

const replacementBytes: Readonly<Record<string, Buffer>> = {
  'utf-8': Buffer.from([0xef, 0xbf, 0xbd]),
  'utf-16le': Buffer.from([0xfd, 0xff]),
  'utf-16be': Buffer.from([0xff, 0xfd]),
}

/** Decodes invalid bytes to `undecodable`. A U+FFFD in the text stays. */
export class MarkingDecoder {
  readonly #decoder: TextDecoder
  readonly #replacement: Buffer | undefined
  readonly #unitBytes: number
  #held: Buffer = Buffer.alloc(0)

  constructor(label: string) {
    this.#decoder = new TextDecoder(label)
    this.#replacement = replacementBytes[this.encoding]
    this.#unitBytes = this.encoding.startsWith('utf-16') ? 2 : 1
  }

  get encoding(): string {
    return this.#decoder.encoding
  }

  /** Without bytes, returns what is left at the end. */
  decode(bytes?: Uint8Array): string {
    const isEnd = bytes === undefined
    const all = Buffer.concat([this.#held, bytes ?? new Uint8Array()])
    const end = isEnd ? all.length : all.length - this.#unfinishedBytes(all)
    this.#held = all.subarray(end)
    const text = this.#decodeWhole(all.subarray(0, end))
    return isEnd ? text + mark(this.#decoder.decode()) : text
  }

  #decodeWhole(bytes: Buffer): string {
    let [text, from] = ['', 0]
    for (let at = this.#findReplacement(bytes, 0); at !== -1; at = this.#findReplacement(bytes, from)) {
      const before = this.#decoder.decode(bytes.subarray(from, at), { stream: true })
      from = at + (this.#replacement?.length ?? 0)
      const found = this.#decoder.decode(bytes.subarray(at, from), { stream: true })
      text += mark(before + found.slice(0, -1)) + replacementCharacter
    }
    return text + mark(this.#decoder.decode(bytes.subarray(from), { stream: true }))
  }

  #findReplacement(bytes: Buffer, from: number): number {
    if (this.#replacement === undefined) return -1
    let at = bytes.indexOf(this.#replacement, from)
    while (at !== -1 && at % this.#unitBytes !== 0) at = bytes.indexOf(this.#replacement, at + 1)
    return at
  }

  #unfinishedBytes(bytes: Buffer): number {
    if (this.#unitBytes === 2) return bytes.length % 2
    for (let length = (this.#replacement?.length ?? 1) - 1; length > 0; length -= 1) {
      if (bytes.length >= length && this.#replacement?.subarray(0, length).equals(bytes.subarray(-length)) === true) {
        return length
      }
    }
    return 0
  }
}

function mark(text: string): string {
  return text.includes(replacementCharacter) ? text.replaceAll(replacementCharacter, undecodable) : text
}
