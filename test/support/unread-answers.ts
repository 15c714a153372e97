import { readFileSync } from 'node:fs'
import { type Socket, connect } from 'node:net'
import { join } from 'node:path'
import type { Upstream } from '@postern/contracts'
import type { TestStack } from '@postern/local-stack/testing'
import { parse } from 'yaml'
import { z } from 'zod'

const mebibyte = 1024 * 1024
const composeSchema = z.looseObject({ services: z.record(z.string(), z.looseObject({ mem_limit: z.string() })) })

export type Measured = Upstream | 'gateway'

/** The memory limit that deploy/compose.yaml ships for a service, in bytes. */
export function shippedLimit(name: Measured): number {
  const text = readFileSync(join(import.meta.dirname, '../../deploy/compose.yaml'), 'utf8')
  const limit = composeSchema.parse(parse(text, { merge: true })).services[name]?.mem_limit ?? ''
  const [, number, unit] = /:-(\d+)([mg])\}$/.exec(limit) ?? []
  return Number(number) * mebibyte * (unit === 'g' ? 1024 : 1)
}

/** Resident memory of a service's process, in bytes. Linux only. */
export function residentBytes(stack: TestStack, name: Measured): number {
  const { pid } = stack.process(name === 'gateway' ? 'gateway-1' : name)
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) * 1024
}

/** Connections that send requests and read no answer. */
export interface UnreadConnections {
  /** Opens `count` connections that send `bytes`. */
  open(origin: string, count: number, bytes: string): void
  closeAll(): void
}

export function createUnreadConnections(): UnreadConnections {
  const sockets = new Set<Socket>()
  return {
    open: (origin, count, bytes) => {
      for (let at = 0; at < count; at += 1) {
        const socket = connect(Number(new URL(origin).port), '127.0.0.1')
        sockets.add(socket)
        socket.on('error', () => undefined)
        socket.once('close', () => sockets.delete(socket))
        socket.pause()
        socket.write(bytes, 'latin1')
      }
    },
    closeAll: () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}
