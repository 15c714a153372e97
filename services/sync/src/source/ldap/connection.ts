import { type Socket, connect as connectPlain, isIP } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { Client, ResultCodeError } from 'ldapts'
import type { Outbound } from '../../outbound/outbound.ts'
import { tlsFailure } from '../../outbound/tls-failure.ts'
import { SourceReadError } from '../source-read-error.ts'
import type { SourceLimits } from '../types.ts'
import { type ByteWatch, watchBytes } from '../watch-bytes.ts'
import { type SilenceLimit, closeTimeoutMs, withSilenceLimit } from '../silence-limit.ts'

const connectTimeoutMs = 10_000

interface Destination {
  readonly host: string
  readonly port?: number | undefined
  readonly encryption: 'ldaps' | 'starttls'
  readonly ca?: string | undefined
}

export interface LdapConnection {
  readonly client: Client
  readonly bytes: ByteWatch
  readonly host: string
  wait<T>(answer: Promise<T>): Promise<T>
  close(): Promise<void>
}

/** Opens one connection and no other, because the library would reconnect without encryption and sign-in. */
export async function connectDirectory(
  { host, port, encryption, ca }: Destination,
  {
    outbound,
    limits,
    signal,
  }: { readonly outbound: Outbound; readonly limits: SourceLimits; readonly signal: AbortSignal },
): Promise<LdapConnection> {
  const { address, family } = await outbound.resolve(host, signal)
  const isSecure = encryption === 'ldaps'
  const tlsOptions = { ...(ca === undefined ? {} : { ca }), ...(isIP(host) === 0 ? { servername: host } : {}) }
  const target = { host: address, port: port ?? (isSecure ? 636 : 389) }
  let socket: Socket | undefined
  const connectOnce = <Each extends Socket>(open: () => Each): Each => {
    if (socket !== undefined) {
      throw new SourceReadError('source_cut_off', `${host} ended the connection`, { retryable: true })
    }
    const opened = open()
    socket = opened
    return opened
  }
  const bytes = watchBytes(() => socket, limits)
  const stop = (): void => void socket?.destroy()
  const tooSlow = `${host} took too long to answer`
  const silenceLimit: SilenceLimit = { maxMs: limits.maxSilenceMs, signal, end: stop, tooSlow }
  const wait = async <T>(answer: Promise<T>): Promise<T> => await withSilenceLimit(answer, silenceLimit)
  signal.addEventListener('abort', stop, { once: true })
  const client = new Client({
    url: `${encryption === 'ldaps' ? 'ldaps' : 'ldap'}://${family === 6 ? `[${address}]` : address}:${target.port}`,
    timeout: limits.maxSilenceMs,
    connectTimeout: connectTimeoutMs,
    createConnection: () => connectOnce(() => connectPlain(target)),
    // StartTLS also calls this, to wrap the existing connection.
    createSecureConnection: (first: number | ConnectionOptions) =>
      typeof first === 'number' ? connectOnce(() => connectTls({ ...tlsOptions, ...target })) : connectTls(first),
  })
  const close = async (): Promise<void> => {
    bytes.end()
    signal.removeEventListener('abort', stop)
    // The library does not always notice the end of a connection after StartTLS.
    await withSilenceLimit(client.unbind(), { ...silenceLimit, maxMs: closeTimeoutMs }).catch(() => undefined)
    stop()
  }
  try {
    signal.throwIfAborted()
    // The library does not notice a connection that is cut while it changes to TLS.
    if (!isSecure) await wait(client.startTLS({ ...tlsOptions, host: isIP(host) === 0 ? host : address }))
  } catch (error) {
    await close()
    throw bytes.failure() ?? ldapFailure(error, host)
  }
  return { client, bytes, host, wait, close }
}

/** Result codes of RFC 4511, appendix A. */
const results: Readonly<
  Record<number, { readonly code: string; readonly message: string; readonly retryable?: true }>
> = {
  3: { code: 'source_too_slow', message: 'the search took longer than the directory allows', retryable: true },
  4: {
    code: 'size_limit',
    message: 'it limits the entries of a page: set a smaller `page_size`, or have the limit raised',
  },
  8: { code: 'not_authorized', message: 'it requires another kind of sign-in' },
  11: { code: 'size_limit', message: 'it limits the entries of the account: have the limit raised' },
  32: { code: 'not_found', message: 'the entry `base_dn` does not exist, or the account cannot see it' },
  34: { code: 'name_invalid', message: '`base_dn` or `bind_dn` is not a valid name' },
  49: {
    code: 'not_authorized',
    message: 'the account or its password is wrong: check `bind_dn` and the secret `password`',
  },
  50: { code: 'not_authorized', message: 'the account lacks read permission' },
  51: { code: 'source_failing', message: 'it is busy', retryable: true },
  52: { code: 'source_failing', message: 'it is not available', retryable: true },
}

export function ldapFailure(error: unknown, host: string): unknown {
  if (error instanceof SourceReadError || !(error instanceof Error)) return error
  if (error instanceof ResultCodeError) {
    const known = results[error.code] ?? { code: 'answer_refused', message: `it answers with code ${error.code}` }
    return new SourceReadError(known.code, `${host}: ${known.message}`, {
      retryable: known.retryable ?? false,
      cause: error,
    })
  }
  const insecure = tlsFailure('code' in error ? error.code : undefined, host, error)
  if (insecure !== undefined) return insecure
  const message = `${host} cannot be reached, or ended the connection`
  return new SourceReadError('source_unreachable', message, { retryable: true, cause: error })
}
