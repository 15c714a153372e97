import type { FastifyInstance } from 'fastify'
import { runAfterPendingReads } from './late-process.ts'

const leastBytes = 1024

/** 1 KiB per `withinMs`. Bytes that the process has not read yet do not count. */
export function cutSlowBodies(app: FastifyInstance, withinMs: number): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { raw } = request
    const { 'content-length': length, 'transfer-encoding': coding } = raw.headers
    if (!raw.complete && (coding !== undefined || (length !== undefined && length !== '0'))) {
      const { socket } = raw
      let atLastCheck = socket.bytesRead
      const checkProgress = (): void => {
        if (raw.complete) clearInterval(timer)
        else if (raw.readableLength === 0 && socket.bytesRead - atLastCheck < leastBytes) socket.destroy()
        atLastCheck = socket.bytesRead
      }
      const timer = setInterval(() => runAfterPendingReads(checkProgress), withinMs)
      timer.unref()
      raw.once('close', () => clearInterval(timer))
    }
    done()
  })
}
