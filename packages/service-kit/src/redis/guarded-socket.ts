import { Socket } from 'node:net'
import { ReplyGuard } from './reply-guard.ts'

/** Ends with RedisProtocolError before ioredis sees an invalid reply. */
export class GuardedSocket extends Socket {
  readonly #socket: Socket
  readonly #guard = new ReplyGuard()

  constructor(socket: Socket) {
    super()
    this.#socket = socket
    socket.on('data', (bytes: Buffer) => this.#receive(bytes))
    socket.on('end', () => this.push(null))
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', () => this.destroy())
    this.once('close', () => socket.destroy())
  }

  override _read(): void {
    this.#socket.resume()
  }

  override _write(chunk: Buffer | string, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send(Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk, encoding), done)
  }

  override _writev(
    chunks: { chunk: Buffer | string; encoding: BufferEncoding }[],
    done: (error?: Error | null) => void,
  ): void {
    const parts = chunks.map(({ chunk, encoding }) => (Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk, encoding)))
    this.#send(Buffer.concat(parts), done)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end()
    done()
  }

  #send(bytes: Buffer, done: (error?: Error | null) => void): void {
    this.#guard.recordCommands(bytes)
    if (this.#socket.write(bytes)) done()
    else this.#socket.once('drain', done)
  }

  #receive(bytes: Buffer): void {
    if (this.destroyed) return
    try {
      this.#guard.checkReplies(bytes)
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)))
      return
    }
    if (!this.push(bytes)) this.#socket.pause()
  }
}
