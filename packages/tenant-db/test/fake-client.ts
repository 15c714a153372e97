import { EventEmitter } from 'node:events'
import type { PoolClient, QueryResult } from 'pg'
import { openPool } from '../src/pool.ts'
import { Session } from '../src/session.ts'

export type Answer = (error: unknown, result?: Partial<QueryResult>) => void

/** A connection whose answers the test gives, in the order of what was asked. */
export class FakeClient extends EventEmitter {
  readonly asked: { readonly text: string; readonly name: string | undefined; readonly answer: Answer }[] = []
  /** The same in their order, with what holds back their bytes and lets them go. */
  readonly traffic: string[] = []
  isDestroyed = false
  released: unknown[] = []
  status = 'I'
  readonly connection = Object.assign(new EventEmitter(), {
    parsedStatements: {},
    stream: {
      cork: () => void this.traffic.push('cork'),
      uncork: () => void this.traffic.push('uncork'),
      destroy: () => void (this.isDestroyed = true),
    },
  })

  /** What it answers at once. */
  known: (text: string) => Partial<QueryResult> | undefined

  constructor(known: FakeClient['known'] = () => undefined) {
    super()
    this.known = known
  }

  query({
    text,
    name,
    callback: answer,
  }: {
    readonly text: string
    readonly name?: string
    readonly callback: Answer
  }): void {
    this.asked.push({ text, name, answer })
    this.traffic.push(text)
    const result = this.known(text)
    if (result !== undefined) answer(null, result)
  }

  /** The texts of what was asked. */
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

  /** As if a pool had opened it: what happens to it is noted from then on. */
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
