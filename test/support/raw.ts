import { connect } from 'node:net'

/** The bytes of a raw connection until it closed or the time was over. */
export interface RawAnswer {
  /** Status of each answer on the connection, in order. */
  readonly statuses: readonly number[]
  readonly text: string
  /** Whether the server closed the connection. */
  readonly closed: boolean
}

/** Writes bytes unchanged, and reads until the server closes, `answers` answers have started, or `limitMs` is over. */
export async function sendRaw(
  origin: string,
  bytes: string | Buffer,
  { answers = 1, limitMs = 30_000 }: { readonly answers?: number; readonly limitMs?: number } = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(origin)
  const socket = connect({ host: hostname, port: Number(port) })
  const done = Promise.withResolvers<boolean>()
  let text = ''
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    if (isWhole(text, answers)) done.resolve(false)
  })
  socket.once('error', () => done.resolve(true))
  socket.once('close', () => done.resolve(true))
  const limit = setTimeout(() => done.resolve(false), limitMs)
  socket.write(bytes)
  const closed = await done.promise
  clearTimeout(limit)
  socket.destroy()
  return { statuses: statusesOf(text), text, closed }
}

/** Writes bytes and goes away: with a reset at once, or at the first byte of an answer or after a moment without one. */
export async function breakOff(origin: string, bytes: string, atOnce: boolean): Promise<void> {
  const { hostname, port } = new URL(origin)
  const socket = connect({ host: hostname, port: Number(port) })
  const done = Promise.withResolvers<void>()
  socket.on('error', () => undefined)
  socket.once('close', () => done.resolve())
  socket.write(bytes, 'latin1', () => {
    if (atOnce) socket.resetAndDestroy()
  })
  socket.once('data', () => socket.resetAndDestroy())
  const limit = setTimeout(() => socket.resetAndDestroy(), 20)
  await done.promise
  clearTimeout(limit)
}

function statusesOf(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]))
}

function isWhole(text: string, answers: number): boolean {
  if (statusesOf(text).length < answers) return false
  const head = text.lastIndexOf('\r\n\r\n', text.length)
  const length = /content-length: (\d+)/i.exec(text.slice(text.lastIndexOf('HTTP/1.1 ')))?.[1]
  return head !== -1 && (length === undefined || text.length - head - 4 >= Number(length))
}
