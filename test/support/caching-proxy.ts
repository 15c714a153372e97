import { once } from 'node:events'
import { type IncomingMessage, type Server, createServer } from 'node:http'
import { request } from 'undici'

/** A shared cache in front of a server. */
export interface CachingProxy extends AsyncDisposable {
  readonly url: string
  /** The stored responses: `GET /path`. */
  readonly kept: ReadonlySet<string>
  /** Returns the number of requests answered from the cache. */
  hits(): number
}

interface Stored {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly body: string
  /** Request headers on which the response depends, with their values. */
  readonly varies: readonly (readonly [name: string, value: unknown])[]
}

const isStatic = /\.(?:css|js|png|ico|svg|woff2?)$/

/**
 * Stores cacheable responses (without `no-store` and `private`) by method and target, and respects `Vary`, but ignores
 * the host and Authorization like a misconfigured cache. With `staticAnyway` it also stores paths that look like styles
 * or scripts.
 */
export async function startCachingProxy(origin: string, { staticAnyway = false } = {}): Promise<CachingProxy> {
  const store = new Map<string, Stored>()
  let hits = 0

  async function answerTo(asked: IncomingMessage): Promise<Stored> {
    const name = `${asked.method ?? ''} ${asked.url ?? ''}`
    const known = store.get(name)
    if (known?.varies.every(([header, value]) => asked.headers[header] === value) === true) {
      hits += 1
      return known
    }
    const { connection: _connection, ...headers } = asked.headers
    const answer = await request(`${origin}${asked.url ?? ''}`, { method: 'GET', headers })
    const { connection: _own, 'transfer-encoding': _coding, 'content-length': _length, ...given } = answer.headers
    const kept = Object.fromEntries(
      Object.entries(given).flatMap(([header, value]) => (value === undefined ? [] : [[header, value] as const])),
    )
    const varies = String(given['vary'] ?? '')
      .split(',')
      .map((header) => header.trim().toLowerCase())
      .filter((header) => header !== '')
      .map((header) => [header, asked.headers[header]] as const)
    const stored = { status: answer.statusCode, headers: kept, body: await answer.body.text(), varies }
    const mayBeKept = !/no-store|private/.test(String(given['cache-control'] ?? ''))
    const [path = ''] = (asked.url ?? '').split('?', 1)
    if (asked.method === 'GET' && (mayBeKept || (staticAnyway && isStatic.test(path)))) store.set(name, stored)
    return stored
  }

  const server = createServer((asked, response) => {
    void answerTo(asked).then(({ status, headers, body }) => {
      response
        .writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body), connection: 'close' })
        .end(body)
    })
  })
  return {
    url: await listen(server),
    get kept() {
      return new Set(store.keys())
    },
    hits: () => hits,
    [Symbol.asyncDispose]: async () => await close(server),
  }
}

/**
 * Control: a vulnerable server. It returns the credentials of the request, builds links from client headers, and allows
 * caching.
 */
export async function startCarelessServer(): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer((asked, response) => {
    const { authorization = 'nobody', host = '', 'x-forwarded-host': forwarded = host } = asked.headers
    response.writeHead(200, { location: `http://${String(forwarded)}/next`, 'content-type': 'text/plain' })
    response.end(`you are ${authorization}`)
  })
  return { url: await listen(server), [Symbol.asyncDispose]: async () => await close(server) }
}

async function listen(server: Server): Promise<string> {
  server.listen({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return `http://127.0.0.1:${address.port}`
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
}
