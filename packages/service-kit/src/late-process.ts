import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Runs a function after pending input has been read. A process that was frozen finds its timers expired before it reads, and would
 * blame clients whose data has been waiting.
 */
export function onceRead(task: () => void): void {
  setImmediate(task)
}

/** Closes idle connections after `keepAliveTimeout`, unless input is pending because this process was late. */
export function readBeforeIdleClose(server: Server): void {
  server.on('timeout', (socket: Socket) => {
    const { bytesRead } = socket
    onceRead(() => {
      if (socket.bytesRead === bytesRead) socket.destroy()
    })
  })
}
