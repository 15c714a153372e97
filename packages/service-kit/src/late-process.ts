import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Does something once what has come meanwhile is read, for whoever judges by the time what a client sends. Behind a turn of work the
 * event loop looks at its timers, and reads after that: a process that stood still (frozen, or without a processor) finds all times
 * over, and would blame its clients for what has been waiting for it all the while.
 */
export function onceRead(task: () => void): void {
  setImmediate(task)
}

/**
 * Closes a connection that has been idle for `keepAliveTimeout` only when nothing has come on it: where the process was late itself, a
 * request may be waiting. Node leaves the closing to whoever listens to `timeout`.
 */
export function readBeforeIdleClose(server: Server): void {
  server.on('timeout', (socket: Socket) => {
    const { bytesRead } = socket
    onceRead(() => {
      if (socket.bytesRead === bytesRead) socket.destroy()
    })
  })
}
