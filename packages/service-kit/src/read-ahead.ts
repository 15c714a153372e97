import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { parseOurJson } from './json-body.ts'
import { problem } from './problem.ts'

/** A body that was parsed, and is valid by the schema of its route. */
export class ReadBody {
  readonly value: unknown

  constructor(value: unknown) {
    this.value = value
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const closingBrace = 0x7d
const missingByte = Buffer.of(closingBrace)

/**
 * Reads the JSON objects that a part of Postern sends to the routes of `app`. Of one that has come but for its last byte, all is parsed
 * and validated that can be: who holds that byte back has the time that this takes while something else is under way. Nothing is done of a
 * request before it is whole.
 */
export function readAhead(app: FastifyInstance, schema: z.ZodType, maxBytes: number): void {
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', async ({ headers }: FastifyRequest, payload: IncomingMessage) => {
    const length = Number(headers['content-length'] ?? Infinity)
    if (Number.isFinite(length) && length > maxBytes) throw tooLarge()
    let early: ReadBody | undefined
    const body = await collect(payload, maxBytes, (parts, received) => {
      // As one text at once: put together from two it is made twice, and large texts take long.
      if (received === length - 1) early = readEarly(Buffer.concat([...parts, missingByte]), schema)
    })
    return early !== undefined && body.at(-1) === closingBrace ? early : parseOurJson(body)
  })
}

function readEarly(body: Buffer, schema: z.ZodType): ReadBody | undefined {
  try {
    const parsed = schema.safeParse(JSON.parse(utf8.decode(body)))
    return parsed.success ? new ReadBody(parsed.data) : undefined
  } catch {
    // What is wrong with it is told once it is whole.
    return undefined
  }
}

/** The whole of a body; `took` is told of what there is after each part. */
async function collect(
  payload: IncomingMessage,
  maxBytes: number,
  took: (parts: readonly Buffer[], received: number) => void,
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const parts: Buffer[] = []
  let received = 0
  payload.on('data', (part: Buffer) => {
    received += part.length
    if (received > maxBytes) {
      payload.pause()
      reject(tooLarge())
      return
    }
    parts.push(part)
    took(parts, received)
  })
  payload.once('end', () => resolve(Buffer.concat(parts)))
  // Who breaks off has no answer to wait for.
  payload.once('error', () => reject(problem('bad_request', { detail: 'The body broke off.' })))
  return await promise
}

function tooLarge(): Error {
  return problem('content_too_large', { detail: 'The body is larger than this operation takes.' })
}
