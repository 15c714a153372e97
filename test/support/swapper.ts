import { once } from 'node:events'
import { type ServerResponse, createServer } from 'node:http'
import { request } from 'undici'

/** Somebody between clients and a server who confuses what he carries. */
export interface Swapper extends AsyncDisposable {
  readonly url: string
}

/**
 * Swaps the answers of pairs of requests between their clients: the whole answer, only its body, or nothing as a
 * control.
 */
export async function startSwapper(origin: string, what: 'answer' | 'body' | 'nothing'): Promise<Swapper> {
  interface Held {
    readonly response: ServerResponse
    readonly status: number
    readonly headers: Readonly<Record<string, string | string[] | undefined>>
    readonly body: string
  }
  let waiting: Held | undefined
  const server = createServer((asked, response) => {
    void (async () => {
      const { connection: _own, host: _host, ...headers } = asked.headers
      const answer = await request(`${origin}${asked.url ?? ''}`, { method: 'GET', headers })
      const held = { response, status: answer.statusCode, headers: answer.headers, body: await answer.body.text() }
      if (waiting === undefined) {
        waiting = held
        return
      }
      const [one, other] = [waiting, held]
      waiting = undefined
      give(one, other)
      give(other, one)
    })()
  })

  function give(own: Held, others: Held): void {
    const head = what === 'answer' ? others : own
    const body = what === 'nothing' ? own.body : others.body
    const { 'content-length': _length, 'transfer-encoding': _coding, connection: _connection, ...rest } = head.headers
    own.response.writeHead(head.status, { ...rest, 'content-length': Buffer.byteLength(body), connection: 'close' })
    own.response.end(body)
  }

  server.listen({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the swapper has no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
