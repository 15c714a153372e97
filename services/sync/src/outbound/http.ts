import { isIP } from 'node:net'
import { type Readable, pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { Agent, type Dispatcher, buildConnector } from 'undici'
import { SourceReadError } from '../source/source-read-error.ts'
import { createByteBudget, readBytes } from './byte-stream.ts'
import { httpFailure } from './http-failure.ts'
import type { Outbound, OutboundAnswer, OutboundHttp, OutboundHttpOptions, OutboundRequest } from './outbound.ts'

const connectTimeoutMs = 10_000
const maxRedirects = 5
const maxHeaderBytes = 32_768
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

interface AddressChecks {
  readonly resolve: Outbound['resolve']
  readonly isListed: (address: string) => boolean
}

/** Does not retry, and ignores proxies of the environment. */
export function openHttp({ ca, maxBytes, maxSilenceMs }: OutboundHttpOptions, checks: AddressChecks): OutboundHttp {
  const budget = createByteBudget(maxBytes)
  const closing = new AbortController()
  const agent = new Agent({
    connect: createConnector(checks, ca, closing.signal),
    pipelining: 1,
    headersTimeout: maxSilenceMs,
    bodyTimeout: 0,
    maxHeaderSize: maxHeaderBytes,
  })
  const ask = async (
    target: URL,
    request: OutboundRequest,
    isFirstOrigin: boolean,
  ): Promise<Dispatcher.ResponseData> => {
    try {
      return await agent.request({
        origin: target.origin,
        path: `${target.pathname}${target.search}`,
        method: request.method ?? 'GET',
        headers: {
          'user-agent': 'Postern',
          'accept-encoding': 'gzip',
          ...(isFirstOrigin ? request.headers : { accept: request.headers?.['accept'] ?? '*/*' }),
        },
        body: request.body ?? null,
        signal: request.signal,
      })
    } catch (error) {
      throw httpFailure(error, target.host)
    }
  }
  return {
    request: async (request) => {
      const first = parseTarget(request.url)
      let target = first
      for (let followed = 0; followed <= maxRedirects; followed++) {
        const answer = await ask(target, request, target.origin === first.origin)
        const location = singleHeader(answer.headers, 'location')
        if (!redirects.has(answer.statusCode) || location === undefined) {
          return toAnswer(answer, target, async function* readBody(stream) {
            try {
              yield* readBytes(stream, { budget, maxSilenceMs, signal: request.signal })
            } catch (error) {
              throw httpFailure(error, target.host)
            }
          })
        }
        discard(answer.body)
        target = nextTarget(target, location, request)
      }
      throw new SourceReadError('redirects_endless', `${first.host} redirects more than ${maxRedirects} times`)
    },
    close: async () => {
      closing.abort(new Error('the read is over'))
      await agent.destroy()
    },
  }
}

/** Connects to the checked address, because a second lookup could return another one. */
function createConnector(
  { resolve, isListed }: AddressChecks,
  ca: string | undefined,
  signal: AbortSignal,
): buildConnector.connector {
  const connect = buildConnector({
    timeout: connectTimeoutMs,
    allowH2: false,
    maxCachedSessions: 0,
    ...(ca === undefined ? {} : { ca }),
  })
  const open = async (options: buildConnector.Options): Promise<buildConnector.Options> => {
    const { address } = await resolve(options.hostname, signal)
    if (options.protocol !== 'https:' && !isListed(address)) {
      throw new SourceReadError(
        'not_encrypted',
        `the connection to ${options.hostname} would be unencrypted: use https`,
      )
    }
    const servername = isIP(options.hostname) === 0 ? { servername: options.hostname } : {}
    return { ...options, hostname: address, ...servername }
  }
  return (options, callback) => {
    open(options).then(
      (checked) => connect(checked, callback),
      (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), null),
    )
  }
}

function parseTarget(text: string, base?: URL): URL {
  if (!URL.canParse(text, base?.href)) throw new SourceReadError('address_invalid', 'the source has no valid URL')
  const url = new URL(text, base?.href)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new SourceReadError('address_invalid', `a source must use https, and not ${url.protocol.slice(0, -1)}`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new SourceReadError('address_invalid', 'the URL contains a password: set it as a secret')
  }
  return url
}

function nextTarget(from: URL, location: string, request: OutboundRequest): URL {
  if (request.body !== undefined) {
    throw new SourceReadError('redirect_refused', `${from.host} redirects a request that contains credentials`)
  }
  const next = parseTarget(location, from)
  if (from.protocol === 'https:' && next.protocol !== 'https:') {
    throw new SourceReadError('not_encrypted', `${from.host} redirects to ${next.host} without encryption`)
  }
  return next
}

function toAnswer(
  answer: Dispatcher.ResponseData,
  target: URL,
  read: (stream: Readable) => AsyncGenerator<Uint8Array>,
): OutboundAnswer {
  const encoding = singleHeader(answer.headers, 'content-encoding')?.toLowerCase() ?? 'identity'
  const stream = decompress(answer.body, encoding)
  stream.on('error', () => undefined)
  const names = Object.keys(answer.headers)
  return {
    url: target.href,
    status: answer.statusCode,
    headers: Object.fromEntries(names.map((name) => [name, singleHeader(answer.headers, name)])),
    body: read(stream),
    discard: () => discard(stream),
  }
}

function discard(body: Readable): void {
  body.on('error', () => undefined).destroy()
}

function decompress(body: Readable, encoding: string): Readable {
  switch (encoding) {
    case 'identity':
      return body
    case 'gzip':
    case 'x-gzip': {
      const gunzip = createGunzip()
      // The pipeline destroys the decompressor on an error, so its reader sees the error.
      return pipeline(body, gunzip, () => undefined)
    }
    default:
      discard(body)
      throw new SourceReadError('encoding_unknown', 'the source used a compression that was not requested')
  }
}

/** Returns the first value of a header, or all values of `link`. */
function singleHeader(headers: Dispatcher.ResponseData['headers'], name: string): string | undefined {
  const value = headers[name]
  if (Array.isArray(value)) return name === 'link' ? value.join(', ') : value[0]
  return value
}
