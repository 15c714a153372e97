import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Runs a task after pending input was read: a frozen process finds its timers expired first and would blame its
 * clients.
 */
export function onceRead(task: () => void): void {
  setImmediate(task)
}

/** Closes idle connections after `keepAliveTimeout`, unless this process was late. */
export function readBeforeIdleClose(server: Server): void {
  server.on('timeout', (socket: Socket) => {
    const { bytesRead } = socket
    onceRead(() => {
      if (socket.bytesRead === bytesRead) socket.destroy()
    })
  })
}
