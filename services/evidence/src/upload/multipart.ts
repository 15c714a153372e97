import { Readable, pipeline } from 'node:stream'
import { maxFilesAtOnce } from '@postern/contracts'
import { type Stall, bodyError, discardRest, problem, watchStall } from '@postern/service-kit'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { createBase64Decoder } from './base64-decoder.ts'
import { faultOfHead, findExtendedName, headLimits } from './form-head.ts'
import { createHeadScanner, findBoundary } from './form-heads.ts'
import { UploadStalledError } from './receive.ts'
import { brokenOffProblem, emptyFileProblem, formProblem } from './refusal.ts'

export interface FilePart {
  readonly fileName: string
  readonly contentType: string
  /** Must be read to its end before the next part. */
  readonly stream: Readable
}

export interface MultipartReader {
  /** Called at most once, before or after the files. */
  onMetadata(json: Buffer): void
  onFile(file: FilePart): Promise<void>
}

const maxMetadataBytes = 64 * 1024
const metadataName = 'metadata'
const fileName = 'file'

/** Reads a form (RFC 7578). Rejects with a problem at the first fault, which also ends the open streams. */
export async function readMultipart(
  body: unknown,
  contentType: string,
  { stallMs, reader }: { readonly stallMs: number; readonly reader: MultipartReader },
): Promise<void> {
  if (!(body instanceof Readable)) throw emptyFileProblem()
  const boundary = findBoundary(contentType)
  if (boundary === undefined) throw malformedProblem(undefined, noBoundary)
  const parser = openParser(boundary)
  // One after the other, because the parser may be several small parts ahead.
  let received: Promise<void> = Promise.resolve()
  /** The `filename*` of each head. */
  const extendedNames: (string | undefined)[] = []
  let parts = 0
  let hasMetadata = false
  const streams = new Set<Readable>()

  const receivePart = async ({ name, stream, given, encoding, mime }: Part): Promise<void> => {
    const content = decodePart(stream, encoding)
    if (name === metadataName) {
      if (hasMetadata) throw formProblem('There may be only one part `metadata`.')
      hasMetadata = true
      reader.onMetadata(await readAll(content))
      return
    }
    if (name !== fileName) throw formProblem('The parts must be named `metadata` or `file`.')
    if (given === undefined) throw formProblem('Each part `file` needs a file name.')
    // The parser's replacement for bytes that are not UTF-8.
    if (given.includes('\ufffd')) throw formProblem('Each file name must be UTF-8.')
    await reader.onFile({ fileName: given, contentType: mime, stream: content })
  }

  const wrongHead = Promise.withResolvers<never>()
  const scan = createHeadScanner(boundary, (head) => {
    const fault = head === undefined ? undefined : faultOfHead(head)
    extendedNames.push(head === undefined || fault !== undefined ? undefined : findExtendedName(head))
    if (head === undefined || fault !== undefined) wrongHead.reject(malformedProblem(undefined, fault))
  })
  let stall: Stall | undefined
  const refresh = () => stall?.refresh()
  try {
    await new Promise<void>((resolve, reject) => {
      wrongHead.promise.catch(reject)
      stall = watchStall(stallMs, {
        isHeld: () => body.isPaused() || body.readableEnded,
        onStall: () => reject(new UploadStalledError()),
      })
      parser.on('file', (name, stream, given, encoding, mime) => {
        streams.add(stream)
        stream.once('close', () => streams.delete(stream))
        // An error without a reader must not end the process.
        stream.on('error', () => undefined)
        const part = { name, stream, given: extendedNames[parts] ?? given, encoding, mime }
        parts += 1
        received = received.then(async () => await receivePart(part))
        received.catch(reject)
      })
      // Before the parser, which would emit a part although its head is wrong.
      body.on('data', scan)
      const tooMany = () =>
        reject(formProblem(`There may be at most ${maxFilesAtOnce} files and one part \`metadata\`.`))
      for (const limit of ['filesLimit', 'partsLimit'] as const) parser.on(limit, tooMany)
      parser.on('error', (cause) => reject(malformedProblem(cause)))
      parser.on('finish', () => {
        // The parser silently skips parts that are not form-data.
        if (extendedNames.length !== parts)
          reject(formProblem('Each part needs a Content-Disposition that is form-data.'))
        else void received.then(resolve, reject)
      })
      body.once('error', reject)
      body.once('close', () => {
        if (!body.readableEnded) reject(brokenOffProblem())
      })
      body.on('data', refresh)
      body.pipe(parser)
    })
  } catch (error) {
    body.unpipe(parser)
    for (const stream of streams) stream.destroy(new UploadEndedError())
    void discardRest(body)
    await received.catch(() => undefined)
    if (error instanceof UploadStalledError)
      throw problem('request_timeout', { detail: 'The upload stalled. Send the file again.' })
    throw error
  } finally {
    stall?.stop()
    body.off('data', refresh).off('data', scan)
  }
}

interface Part {
  readonly name: string
  readonly stream: Readable
  readonly given: string | undefined
  /** Deprecated by RFC 7578, but some tools still send it. */
  readonly encoding: string
  readonly mime: string
}

const plainEncodings: ReadonlySet<string> = new Set(['7bit', '8bit', 'binary'])

function decodePart(stream: Readable, encoding: string): Readable {
  const name = encoding.toLowerCase()
  if (plainEncodings.has(name)) return stream
  if (name !== 'base64') throw formProblem('The Content-Transfer-Encoding of a part must be base64 or absent.')
  return pipeline(stream, createBase64Decoder(), () => undefined)
}

class UploadEndedError extends Error {}

function openParser(boundary: string): BusboyInstance {
  return new Busboy({
    headers: { 'content-type': `multipart/form-data; boundary="${boundary}"` },
    // A path in a file name is rejected, not cut off.
    preservePath: true,
    // The parser would decode text fields and replace invalid UTF-8.
    isPartAFile: () => true,
    limits: {
      files: maxFilesAtOnce + 1,
      parts: maxFilesAtOnce + 1,
      ...headLimits,
    },
  })
}

async function readAll(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of stream) {
    if (!Buffer.isBuffer(chunk)) throw new TypeError('a part must be a stream of bytes')
    length += chunk.length
    if (length > maxMetadataBytes) throw metadataTooLargeProblem()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function metadataTooLargeProblem(): Error {
  return problem('content_too_large', { detail: `The metadata may have at most ${maxMetadataBytes} bytes.` })
}

const noBoundary = 'The Content-Type has no usable `boundary`. Let the HTTP client set this header.'

function malformedProblem(cause: unknown, detail = 'The body is not multipart/form-data (RFC 7578).'): Error {
  return problem('bad_request', { detail, errors: [bodyError('is not multipart/form-data')], cause })
}
