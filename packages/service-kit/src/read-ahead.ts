import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { parseOurJson } from './json-body.ts'
import { problem } from './problem.ts'

export class ReadBody {
  readonly value: unknown

  constructor(value: unknown) {
    this.value = value
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const closingBrace = 0x7d
const missingByte = Buffer.of(closingBrace)

/** The sender may hold back the last byte. No request is executed before it is complete. */
export function readAhead(app: FastifyInstance, schema: z.ZodType, maxBytes: number): void {
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', async ({ headers }: FastifyRequest, payload: IncomingMessage) => {
    const length = Number(headers['content-length'] ?? Infinity)
    if (Number.isFinite(length) && length > maxBytes) throw tooLargeError()
    let early: ReadBody | undefined
    const body = await collect(payload, maxBytes, (parts, received) => {
      // Joining large texts is slow.
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
    return undefined
  }
}

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
      reject(tooLargeError())
      return
    }
    parts.push(part)
    took(parts, received)
  })
  payload.once('end', () => resolve(Buffer.concat(parts)))
  payload.once('error', () =>
    reject(problem('bad_request', { detail: 'The body is incomplete. Send the request again.' })),
  )
  return await promise
}

function tooLargeError(): Error {
  return problem('content_too_large', { detail: 'The body is larger than this operation accepts.' })
}
