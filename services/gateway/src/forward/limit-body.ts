import { Transform } from 'node:stream'
import type { IncomingMessage } from 'node:http'
import { countPassedBytes } from '@postern/service-kit'
import { BodyTooLargeError, BodyTooSlowError, EmptyBodyError } from './upstream-errors.ts'

/** Bytes that must arrive in each `withinMs`: a body slower than this ties up a connection for nothing. */
const leastBytes = 10 * 1024

/** Passes a body on and fails it when it grows past `maxBytes` or comes in too slowly. Memory stays flat. */
export function limitBody(request: IncomingMessage, maxBytes: number, withinMs: number): Transform {
  let total = 0
  let atLastCheck = 0
  const body = new Transform({
    // Of a stream of bytes that has ended before it is sent, undici takes the length and sends it: a header that the
    // signature of a chunked request does not cover, and the service refuses. Of a stream of objects it cannot.
    readableObjectMode: true,
    readableHighWaterMark: 1,
    transform(chunk: Buffer, _encoding, done) {
      total += chunk.length
      countPassedBytes(chunk.length)
      if (total > maxBytes) done(new BodyTooLargeError())
      else done(null, chunk)
    },
    flush(done) {
      // undici sends an empty stream with a length of 0, which again no signature covers.
      done(total === 0 ? new EmptyBodyError() : null)
    },
  })
  const timer = setInterval(() => {
    // Paused by a slow upstream is not the client's fault, nor is what the upstream has yet to read of a whole body.
    const waitsForClient = !request.isPaused() && !request.complete
    if (waitsForClient && total - atLastCheck < leastBytes) body.destroy(new BodyTooSlowError())
    atLastCheck = total
  }, withinMs)
  timer.unref()
  body.once('close', () => clearInterval(timer))
  // undici listens only while it sends: what fails after an early answer must not end the process.
  body.on('error', () => undefined)
  request.once('error', (error) => body.destroy(error))
  request.once('aborted', () => body.destroy(new Error('the client broke off')))
  request.pipe(body)
  return body
}
