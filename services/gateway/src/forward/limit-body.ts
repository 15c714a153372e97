import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { countPassedBytes, runAfterPendingReads } from '@postern/service-kit'
import { BodyTooLargeError, BodyTooSlowError, EmptyBodyError } from './upstream-errors.ts'

/** Per `withinMs`. */
const leastBytes = 10 * 1024

/**
 * Fails a body that grows beyond `maxBytes` or arrives too slowly. HOT PATH: a Readable instead of a Transform, which
 * does more work for each chunk.
 */
export function limitBody(request: IncomingMessage, maxBytes: number, withinMs: number): Readable {
  let total = 0
  let atLastCheck = 0
  const body = new Readable({
    // undici sends the length of a byte stream that ended early, which the signature does not cover.
    objectMode: true,
    highWaterMark: 1,
    read: () => {
      if (request.isPaused()) request.resume()
    },
    destroy: (error, done) => {
      clearInterval(timer)
      request.off('data', onData)
      request.off('end', onEnd)
      done(error)
    },
  })
  const onData = (chunk: Buffer): void => {
    total += chunk.length
    countPassedBytes(chunk.length)
    if (total > maxBytes) body.destroy(new BodyTooLargeError())
    else if (!body.push(chunk)) request.pause()
  }
  const onEnd = (): void => {
    // undici sends an empty stream with a length of 0, which the signature does not cover.
    if (total === 0) body.destroy(new EmptyBodyError())
    else body.push(null)
  }
  const checkProgress = (): void => {
    // A service that paused the body, or a complete one, is not the client's fault.
    const waitsForClient = !request.isPaused() && !request.complete
    if (waitsForClient && total - atLastCheck < leastBytes) body.destroy(new BodyTooSlowError())
    atLastCheck = total
  }
  const timer = setInterval(() => runAfterPendingReads(checkProgress), withinMs)
  timer.unref()
  body.on('error', () => undefined)
  request.once('error', (error) => body.destroy(error))
  request.once('aborted', () => body.destroy(new Error('the client aborted the body')))
  request.on('end', onEnd)
  request.on('data', onData)
  return body
}
