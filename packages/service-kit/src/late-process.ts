import type { Server } from 'node:http'
import type { Socket } from 'node:net'

/** A frozen process finds its timers expired first and would blame its clients. */
export function runAfterPendingReads(task: () => void): void {
  setImmediate(task)
}

export function readBeforeIdleClose(server: Server): void {
  server.on('timeout', (socket: Socket) => {
    const { bytesRead } = socket
    runAfterPendingReads(() => {
      if (socket.bytesRead === bytesRead) socket.destroy()
    })
  })
}
