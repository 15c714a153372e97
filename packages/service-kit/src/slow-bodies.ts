import type { FastifyInstance } from 'fastify'
import { runAfterPendingReads } from './late-process.ts'

const leastBytes = 1024

/** Cuts the connection of a body that brings less than 1 KiB per `withinMs`, unless received bytes wait to be read. */
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
