import type { FastifyInstance } from 'fastify'
import { onceRead } from './late-process.ts'

/** Of a body that must arrive in each `withinMs`: a slower one ties up a connection, and what waits for it, for nothing. */
const leastBytes = 1024

/**
 * Cuts the connection of a request whose body comes in more slowly than a kibibyte in each `withinMs`. The gateway answers its clients
 * 408 long before; this is for who speaks to this process itself. What the process has yet to read is not the client's fault.
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
