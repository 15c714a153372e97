import type { csvEncodings } from '@postern/contracts'
import { isAscii } from 'node:buffer'
import { SourceReadError } from '../source-read-error.ts'
import { MarkingDecoder, undecodable } from '../marking-decoder.ts'
import { findBinaryFormat } from './other-formats.ts'

type Encoding = (typeof csvEncodings)[number]

const sampleBytes = 65_536

/**
 * `auto`: by byte order mark, else UTF-16 if there are zero bytes, else `declared`, else guessed. Rejects UTF-32 and binary files.
 */
export async function* decodeText(
  bytes: AsyncIterable<Uint8Array>,
  encoding: Encoding,
  declared: () => string | undefined = () => undefined,
): AsyncGenerator<string> {
  const chunks = bytes[Symbol.asyncIterator]()
  try {
    let decoder = encoding === 'auto' ? undefined : new MarkingDecoder(encoding)
    let held = await readAtLeast(chunks, new Uint8Array(), sampleBytes)
    const format = findBinaryFormat(held)
    if (format !== undefined) throw new SourceReadError('not_a_table', `the file is ${format}`)
    if (isUtf32(held)) throw new SourceReadError('not_a_table', 'the file is in UTF-32: save it as CSV (UTF-8)')
    decoder ??= markedDecoder(held) ?? declaredDecoder(declared())
    while (decoder === undefined && held.length > 0) {
      const plain = asciiLength(held)
      if (plain > 0) yield Buffer.from(held.buffer, held.byteOffset, plain).toString('latin1')
      held = await readAtLeast(chunks, held.subarray(plain), sampleBytes)
      if (held.length > 0 && asciiLength(held) === 0) decoder = new MarkingDecoder(guessEncoding(held))
    }
    if (decoder === undefined) return
    yield decoder.decode(held)
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) {
      yield decoder.decode(next.value)
    }
    const rest = decoder.decode()
    if (rest !== '') yield rest
  } finally {
    await chunks.return?.(undefined)
  }
}

async function readAtLeast(chunks: AsyncIterator<Uint8Array>, held: Uint8Array, wanted: number): Promise<Uint8Array> {
  const parts = [held]
  let length = held.length
  while (length < wanted) {
    const next = await chunks.next()
    if (next.done === true) break
    parts.push(next.value)
    length += next.value.length
  }
  return parts.length === 1 ? held : Buffer.concat(parts)
}

/** Checked first, because the mark of UTF-32 starts with that of UTF-16. */
function isUtf32(bytes: Uint8Array): boolean {
  const start = bytes.subarray(0, 8)
  if (start.length === 0 || start.length % 4 !== 0) return false
  const isZero = (_none: unknown, pair: number) => start[pair * 2] === 0 && start[pair * 2 + 1] === 0
  const pairs = Array.from({ length: start.length / 2 }, isZero)
  const isIn = (order: 'big' | 'little') =>
    pairs.every((zero, pair) => zero === (pair % 2 === (order === 'big' ? 0 : 1)))
  return isIn('little') || isIn('big')
}

function markedDecoder(bytes: Uint8Array): MarkingDecoder | undefined {
  const [first, second, third] = bytes
  if (first === 0xef && second === 0xbb && third === 0xbf) return new MarkingDecoder('utf-8')
  if (first === 0xff && second === 0xfe) return new MarkingDecoder('utf-16le')
  if (first === 0xfe && second === 0xff) return new MarkingDecoder('utf-16be')
  // Without a mark: a header starts with a letter, so one byte of its first UTF-16 unit is zero.
  if (first !== 0 && second === 0) return new MarkingDecoder('utf-16le')
  if (first === 0 && second !== undefined && second !== 0) return new MarkingDecoder('utf-16be')
  return undefined
}

function declaredDecoder(mediaType = ''): MarkingDecoder | undefined {
  const label = /;\s*charset\s*=\s*"?(?<label>[^\s;"]+)/i.exec(mediaType)?.groups?.['label']
  if (label === undefined) return undefined
  try {
    const decoder = new MarkingDecoder(label)
    // Many servers send ISO-8859-1 by default, so the content decides between it and UTF-8.
    return decoder.encoding === 'windows-1252' ? undefined : decoder
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function asciiLength(bytes: Uint8Array): number {
  if (isAscii(bytes)) return bytes.length
  const found = bytes.findIndex((byte) => byte > 0x7f)
  return found === -1 ? bytes.length : found
}

/** Text in a single-byte encoding is rarely valid UTF-8. */
function guessEncoding(bytes: Uint8Array): Encoding {
  const text = new MarkingDecoder('utf-8').decode(bytes)
  let whole = 0
  let broken = 0
  for (const [character] of text.matchAll(/[^\0-\x7f]/gu)) {
    if (character === undecodable) broken++
    else whole++
  }
  return broken > whole ? 'windows-1252' : 'utf-8'
}
