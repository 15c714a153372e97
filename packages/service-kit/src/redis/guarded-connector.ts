import { once } from 'node:events'
import { Socket, connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { AbstractConnector, type RedisOptions } from 'ioredis'
import { z } from 'zod'
import { GuardedSocket } from './guarded-socket.ts'

export interface RedisNode {
  readonly host: string
  readonly port: number
}

export interface ConnectorOptions {
  readonly isEncrypted: boolean
  readonly connectTimeoutMs: number
  readonly findNode?: () => Promise<RedisNode>
}

const optionsSchema = z.looseObject({ host: z.string().optional(), port: z.number().optional() })
const disconnectTimeoutMs = 500
const keepAliveMs = 30_000

export function createConnectorClass(parts: ConnectorOptions): NonNullable<RedisOptions['Connector']> {
  const { isEncrypted, connectTimeoutMs, findNode } = parts

  return class GuardedConnector extends AbstractConnector {
    readonly #own: RedisNode

    constructor(options: unknown) {
      super(disconnectTimeoutMs)
      const { host = '127.0.0.1', port = 6379 } = optionsSchema.parse(options)
      this.#own = { host, port }
    }

    /** ioredis would stop after a rejection. */
    override async connect(): Promise<Socket> {
      this.connecting = true
      delete this.firstError
      try {
        const { host, port } = findNode === undefined ? this.#own : await findNode()
        if (!this.connecting) return destroyedSocket()
        const socket = isEncrypted ? connectTls({ host, port }) : connectTcp({ host, port })
        socket.setNoDelay(true).setKeepAlive(true, keepAliveMs)
        const guarded = new GuardedSocket(socket)
        this.stream = guarded
        guarded.on('error', (error) => (this.firstError ??= error))
        const timer = setTimeout(() => guarded.destroy(new Error('connect ETIMEDOUT')), connectTimeoutMs)
        try {
          await Promise.race([once(socket, isEncrypted ? 'secureConnect' : 'connect'), once(guarded, 'close')])
        } finally {
          clearTimeout(timer)
        }
        return this.connecting ? guarded : guarded.destroy()
      } catch (error) {
        this.firstError ??= error instanceof Error ? error : new Error(String(error))
        return destroyedSocket()
      }
    }
  }
}

function destroyedSocket(): Socket {
  return new Socket().destroy()
}
