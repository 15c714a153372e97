import type { FastifyInstance } from 'fastify'
import { onceRead } from './late-process.ts'

/** The least bytes of a body in each `withinMs`. Slower bodies only occupy a connection. */
const leastBytes = 1024

/**
 * Cuts the connection of a request whose body is slower than a kibibyte in each `withinMs`. The gateway answers 408
 * earlier; this is for direct callers. Bytes that the process has not read yet do not count.
 */
export function cutSlowBodies(app: FastifyInstance, withinMs: number): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { raw } = request
    const { 'content-length': length, 'transfer-encoding': coding } = raw.headers
    if (!raw.complete && (coding !== undefined || (length !== undefined && length !== '0'))) {
      const { socket } = raw
      let atLastCheck = socket.bytesRead
      const look = (): void => {
        if (raw.complete) clearInterval(timer)
        else if (raw.readableLength === 0 && socket.bytesRead - atLastCheck < leastBytes) socket.destroy()
        atLastCheck = socket.bytesRead
      }
      const timer = setInterval(() => onceRead(look), withinMs)
      timer.unref()
      raw.once('close', () => clearInterval(timer))
    }
    done()
  })
}
