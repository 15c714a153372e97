import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { PoolClient, QueryResult } from 'pg'
import { openPool } from '../src/pool.ts'
import { recordSocket } from '../src/servers.ts'
import { Session } from '../src/session.ts'

export type Answer = (error: unknown, result?: Partial<QueryResult>) => void

export interface FakeQuery extends EventEmitter {
  readonly text: string
  readonly name?: string
  readonly values?: readonly unknown[]
}

/** A connection whose responses come from the test, in order. */
export class FakeClient extends EventEmitter {
  readonly asked: { readonly text: string; readonly name: string | undefined; readonly answer: Answer }[] = []
  /** The same in order, with the moments at which output is held and released. */
  readonly traffic: string[] = []
  isDestroyed = false
  released: unknown[] = []
  status = 'I'
  readonly connection = new EventEmitter()

  known: (text: string) => Partial<QueryResult> | undefined

  constructor(known: FakeClient['known'] = () => undefined) {
    super()
    this.known = known
    const socket = {
      cork: () => void this.traffic.push('cork'),
      uncork: () => void this.traffic.push('uncork'),
      destroy: () => void (this.isDestroyed = true),
    }
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the part of a socket that is used
    recordSocket(this.asPoolClient(), socket as unknown as Socket)
  }

  query(query: FakeQuery): void {
    const { text, name } = query
    const answer: Answer = (error, result) => void (error ? query.emit('error', error) : query.emit('end', result))
    this.asked.push({ text, name, answer })
    this.traffic.push(text)
    const result = this.known(text)
    if (result !== undefined) answer(null, result)
  }

  get texts(): string[] {
    return this.asked.map(({ text }) => text)
  }

  release(error?: unknown): void {
    this.released.push(error)
  }

  getTransactionStatus(): string {
    return this.status
  }

  answer(at: number, result: Partial<QueryResult>): void {
    this.asked[at]?.answer(null, result)
  }

  /** Simulates a pool that opened it, so that its events are recorded. */
  ofPool(): this {
    const connectionString = 'postgres://nobody@127.0.0.1:1/none'
    const pool = openPool({ connectionString, maxConnections: 1, connectTimeoutMs: 1000, applicationName: 'fake' })
    pool.emit('connect', this.asPoolClient())
    return this
  }

  asPoolClient(): PoolClient {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the part of a connection that is used
    return this as unknown as PoolClient
  }

  session(timeoutMs = 1000): Session {
    return new Session(this.asPoolClient(), timeoutMs)
  }
}
