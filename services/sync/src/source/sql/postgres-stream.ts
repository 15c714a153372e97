import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { SourceReadError } from '../source-read-error.ts'
import { type Peer, notPostgresError, createMessageSplitter } from './postgres-messages.ts'

export interface PostgresStreamOptions extends Peer {
  /** Not yet connected. */
  readonly socket: Socket
  /** Undefined without encryption. */
  readonly tls: ConnectionOptions | undefined
}

/** SSLRequest: its length and its code (PostgreSQL, section 54.7). */
const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/**
 * Starts TLS itself and passes on only whole, valid messages: on others `pg` would throw outside of any promise, which
 * ends the process.
 */
export class PostgresStream extends Duplex {
  readonly #options: PostgresStreamOptions
  #wire: Socket

  constructor(options: PostgresStreamOptions) {
    super({ allowHalfOpen: false })
    this.#options = options
    this.#wire = options.socket
    options.socket.on('error', (error) => this.destroy(error))
    options.socket.on('close', () => this.destroy())
  }

  connect(port: number, host: string): this {
    const { socket, tls } = this.#options
    socket.connect(port, host, () => {
      if (tls === undefined) this.#open()
      else this.#startTls(tls)
    })
    return this
  }

  setNoDelay(noDelay: boolean): this {
    this.#options.socket.setNoDelay(noDelay)
    return this
  }

  #startTls(tls: ConnectionOptions): void {
    const { socket, host } = this.#options
    socket.once('data', (answer: Buffer) => {
      // More bytes than this one would be plain text that somebody in between has added.
      if (answer.toString('latin1') !== 'S') {
        const words = `${host} offers no encryption: enable it on the server`
        this.destroy(
          answer.toString('latin1') === 'N' ? new SourceReadError('not_encrypted', words) : notPostgresError(host),
        )
        return
      }
      this.#wire = connectTls({ ...tls, socket })
      this.#wire.on('error', (error) => this.destroy(error))
      this.#wire.once('secureConnect', () => this.#open())
    })
    socket.write(sslRequest)
  }

  #open(): void {
    const split = createMessageSplitter(this.#options)
    this.#wire.on('data', (bytes: Buffer) => {
      if (this.destroyed) return
      try {
        const messages = split(bytes)
        // Emitted instead of pushed, so that an error of `pg` is caught here.
        if (messages !== undefined) this.emit('data', messages)
      } catch (error) {
        this.destroy(error instanceof SourceReadError ? error : notPostgresError(this.#options.host, error))
      }
    })
    this.#wire.on('end', () => this.push(null))
    this.emit('connect')
  }

  override _read(): void {
    // Messages are emitted as they come.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#wire.write(chunk, done)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#wire.end(done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#wire.destroy()
    this.#options.socket.destroy()
    done(error)
  }
}
