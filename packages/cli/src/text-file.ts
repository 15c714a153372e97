import { type ReadStream, createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { TextDecoder } from 'node:util'
import { type Gunzip, createGunzip } from 'node:zlib'
import { CliError, usageError } from './cli-error.ts'

/** An entry of the log has less than a tenth of it. */
const maxLineLength = 16 * 1024 * 1024

// The first bytes of unsupported formats, and how to get text from them.
const packedForms: readonly (readonly [head: readonly number[], form: string])[] = [
  [[0x28, 0xb5, 0x2f, 0xfd], 'compressed with zstd: decompress it first'],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a], 'compressed with xz: decompress it first'],
  [[0x42, 0x5a, 0x68], 'compressed with bzip2: decompress it first'],
  [[0x50, 0x4b, 0x03, 0x04], 'a ZIP archive: unpack it first'],
]

/**
 * Yields lines of UTF-8 or UTF-16, plain or gzip; `node:readline` would also split at U+2028. Throws a CliError that names
 * the file.
 */
export async function* readLines(path: string): AsyncGenerator<string> {
  let rest = ''
  for await (const text of readText(path)) {
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > maxLineLength) throw usageError(`${path} has a line of more than ${maxLineLength} characters`)
    for (const line of lines) yield withoutMark(line)
  }
  if (rest !== '') yield withoutMark(rest)
}

/** A joined file can have byte order marks in the middle. */
function withoutMark(line: string): string {
  return line.startsWith('\ufeff') ? line.slice(1) : line
}

export async function readWholeText(path: string): Promise<string> {
  const lines: string[] = []
  for await (const line of readLines(path)) lines.push(line)
  return lines.join('\n')
}

async function* readText(path: string): AsyncGenerator<string> {
  let file: ReadStream | undefined
  try {
    const head = await readHead(path)
    const packed = packedForms.find(([bytes]) => bytes.every((byte, index) => head[index] === byte))
    if (packed !== undefined) throw usageError(`${path} is ${packed[1]}`)
    file = createReadStream(path)
    let decoder: TextDecoder | undefined
    for await (const chunk of head[0] === 0x1f && head[1] === 0x8b ? unzip(file) : file) {
      const bytes = Buffer.from(chunk)
      if (decoder === undefined && isUtf32(bytes))
        throw usageError(`${path} is text in UTF-32: convert it to UTF-8 first`)
      decoder ??= new TextDecoder(encodingOf(bytes), { fatal: true })
      yield decoder.decode(bytes, { stream: true })
    }
    const end = decoder?.decode() ?? ''
    if (end !== '') yield end
  } catch (error) {
    throw unreadableError(path, error)
  } finally {
    file?.destroy()
  }
}

async function readHead(path: string): Promise<Buffer> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(8), 0, 8, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

function unzip(file: ReadStream): Gunzip {
  const unzipped = createGunzip()
  file.once('error', (error) => unzipped.destroy(error))
  return file.pipe(unzipped)
}

/** Whether text begins with a byte order mark or an ASCII character of UTF-32. */
function isUtf32([first, second, third, fourth]: Buffer): boolean {
  if (first === 0 && second === 0) return (third === 0xfe && fourth === 0xff) || third === 0
  return third === 0 && fourth === 0 && (second === 0 || (first === 0xff && second === 0xfe))
}

function encodingOf([first, second]: Buffer): 'utf-8' | 'utf-16le' | 'utf-16be' {
  // JSON begins with ASCII, so one byte of the first character is zero.
  if ((first === 0xff && second === 0xfe) || (first !== 0 && second === 0)) return 'utf-16le'
  if ((first === 0xfe && second === 0xff) || (first === 0 && second !== 0)) return 'utf-16be'
  return 'utf-8'
}

function unreadableError(path: string, error: unknown): CliError {
  if (error instanceof CliError) return error
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return usageError(`${path} is not text in UTF-8 or UTF-16`)
  if (code === 'Z_BUF_ERROR') return usageError(`${path} is compressed with gzip and cut off: fetch it again`)
  if (typeof code === 'string' && code.startsWith('Z_'))
    return usageError(`${path} is a damaged gzip file: fetch it again`)
  return usageError(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
}
