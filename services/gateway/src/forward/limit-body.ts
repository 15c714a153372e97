import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { countPassedBytes, onceRead } from '@postern/service-kit'
import { BodyTooLargeError, BodyTooSlowError, EmptyBodyError } from './upstream-errors.ts'

/** Bytes that must arrive in each `withinMs`: a body slower than this ties up a connection for nothing. */
const leastBytes = 10 * 1024

/**
 * Passes a body on and fails it when it grows past `maxBytes` or comes in too slowly. Memory stays flat. What arrives is
 * pushed into a stream that is only read: a Transform would do a third more work for each chunk.
 */
export function limitBody(request: IncomingMessage, maxBytes: number, withinMs: number): Readable {
  let total = 0
  let atLastCheck = 0
  const body = new Readable({
    // Of a stream of bytes that has ended before it is sent, undici takes the length and sends it: a header that the
    // signature of a chunked request does not cover, and the service refuses. Of a stream of objects it cannot.
    objectMode: true,
    highWaterMark: 1,
    read: () => {
      if (request.isPaused()) request.resume()
    },
    destroy: (error, done) => {
      clearInterval(timer)
      // Whoever answers reads the rest of the body, and throws it away.
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
    // undici sends an empty stream with a length of 0, which again no signature covers.
    if (total === 0) body.destroy(new EmptyBodyError())
    else body.push(null)
  }
  const look = (): void => {
    // Paused by a slow upstream is not the client's fault, nor is what the upstream has yet to read of a whole body.
    const waitsForClient = !request.isPaused() && !request.complete
    if (waitsForClient && total - atLastCheck < leastBytes) body.destroy(new BodyTooSlowError())
    atLastCheck = total
  }
  const timer = setInterval(() => onceRead(look), withinMs)
  timer.unref()
  // undici listens only while it sends: what fails after an early answer must not end the process.
  body.on('error', () => undefined)
  request.once('error', (error) => body.destroy(error))
  request.once('aborted', () => body.destroy(new Error('the client broke off')))
  request.on('end', onEnd)
  request.on('data', onData)
  return body
}
