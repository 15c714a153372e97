import { type Socket, connect } from 'node:net'
import { type Scan, type ScanOutcome, type Scanner, ScannerUnavailableError } from './scanner.ts'

export interface ClamavOptions {
  readonly address: { readonly path: string } | { readonly host: string; readonly port: number }
  /** Larger files are not scanned. At most clamd's StreamMaxLength and MaxFileSize. */
  readonly maxBytes: number
  readonly timeoutMs: number
}

const connectTimeoutMs = 2_000
const maxReplyLength = 4096

/** Scans with INSTREAM of clamd(8). VERSION detects an unavailable clamd before the file is sent. */
export function openClamav({ address, maxBytes, timeoutMs }: ClamavOptions): Scanner {
  return {
    begin: async () => {
      const socket = connect({ ...address, timeout: connectTimeoutMs })
      const replies = listen(socket)
      try {
        await replies.orFail(waitForConnect(socket), connectTimeoutMs)
        socket.setTimeout(0)
        socket.write('zIDSESSION\0zVERSION\0zINSTREAM\0')
        const scanner = /^1: (ClamAV [\x20-\x7e]{1,200})$/.exec(await replies.next(connectTimeoutMs))?.[1]
        if (scanner === undefined) throw new ScannerUnavailableError('clamd did not answer with its version')
        return scanOf(socket, replies, { scanner, maxBytes, timeoutMs })
      } catch (error) {
        socket.destroy()
        throw error
      }
    },
  }
}

function scanOf(
  socket: Socket,
  replies: Replies,
  { scanner, maxBytes, timeoutMs }: Pick<ClamavOptions, 'maxBytes' | 'timeoutMs'> & { readonly scanner: string },
): Scan {
  let sent = 0
  let isTooLarge = false
  return {
    write: async (chunk) => {
      if (isTooLarge || chunk.length === 0) return
      sent += chunk.length
      // An early answer means that clamd rejects further bytes.
      isTooLarge = sent > maxBytes || replies.hasNext()
      if (isTooLarge) return
      const length = Buffer.alloc(4)
      length.writeUInt32BE(chunk.length)
      socket.write(length)
      if (!socket.write(chunk)) await replies.orFail(waitForDrain(socket), timeoutMs)
    },
    finish: async () => {
      try {
        if (sent > maxBytes) return { result: 'limits_exceeded', scanner }
        if (!isTooLarge) socket.write(Buffer.from('\0\0\0\0zEND\0'))
        return outcomeOf(await replies.next(timeoutMs), scanner)
      } finally {
        socket.destroy()
      }
    },
    abandon: () => void socket.destroy(),
  }
}

function outcomeOf(reply: string, scanner: string): ScanOutcome {
  const text = /^2: (.*)$/s.exec(reply)?.[1]
  if (text === 'stream: OK') return { result: 'clean', scanner }
  if (text === 'INSTREAM size limit exceeded. ERROR') return { result: 'limits_exceeded', scanner }
  const malware = /^stream: ([\x21-\x7e]{1,200}) FOUND$/.exec(text ?? '')?.[1]
  if (malware === undefined) throw new ScannerUnavailableError(`clamd answered ${JSON.stringify(reply.slice(0, 200))}`)
  if (malware.startsWith('Heuristics.Limits.Exceeded')) return { result: 'limits_exceeded', scanner }
  return { result: 'infected', malware, scanner }
}

interface Replies {
  hasNext(): boolean
  next(timeoutMs: number): Promise<string>
  orFail(event: Promise<void>, timeoutMs: number): Promise<void>
}

function listen(socket: Socket): Replies {
  const waiting: string[] = []
  let text = ''
  let wake = Promise.withResolvers<void>()
  const failure = Promise.withResolvers<never>()
  failure.promise.catch(() => undefined)
  const fail = (message: string, cause?: unknown) => {
    failure.reject(new ScannerUnavailableError(message, { cause }))
    socket.destroy()
  }
  socket.on('data', (bytes: Buffer) => {
    const parts = (text + bytes.toString('latin1')).split('\0')
    text = parts.pop() ?? ''
    waiting.push(...parts)
    if (text.length > maxReplyLength) fail('the answer of clamd is too long')
    if (parts.length > 0) wake.resolve()
  })
  socket.on('error', (error) => fail('the connection to clamd failed', error))
  socket.on('timeout', () => fail('clamd did not accept the connection in time'))
  socket.on('close', () => fail('clamd has closed the connection'))

  const within = async (event: Promise<void>, timeoutMs: number): Promise<void> => {
    const limit = setTimeout(() => fail('clamd did not answer in time'), timeoutMs)
    try {
      await Promise.race([event, failure.promise])
    } finally {
      clearTimeout(limit)
    }
  }
  return {
    hasNext: () => waiting.length > 0,
    next: async (timeoutMs) => {
      if (waiting.length === 0) {
        wake = Promise.withResolvers<void>()
        await within(wake.promise, timeoutMs)
      }
      return waiting.shift() ?? ''
    },
    orFail: within,
  }
}

async function waitForConnect(socket: Socket): Promise<void> {
  await new Promise<void>((resolve) => void socket.once('connect', resolve))
}

async function waitForDrain(socket: Socket): Promise<void> {
  await new Promise<void>((resolve) => void socket.once('drain', resolve))
}
