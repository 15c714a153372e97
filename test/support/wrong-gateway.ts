import { once } from 'node:events'
import { type IncomingMessage, createServer } from 'node:http'
import { Agent } from 'undici'

/** Faults of a gateway that a checker must find. */
export type Wrong =
  /** Once it has accepted a key for something it does so for good: no revocation, suspension or expiry reaches it. */
  | 'remembers'
  /** It gives the last answer to whoever asks the same. */
  | 'mixes up'
  /** It accepts writes and does nothing. */
  | 'loses'
  /** It carries out what it then refuses. */
  | 'lies'
  /** It fails in its own name. */
  | 'crashes'

export interface WrongGateway {
  readonly url: string
  close(): Promise<void>
}

interface Answer {
  readonly status: number
  readonly type: string
  readonly body: string
}

/** Stands before a right gateway and does what is wrong: always where it must lead to something, else now and then. */
export async function startWrongGateway(origin: string, wrong: Wrong): Promise<WrongGateway> {
  const connections = new Agent({ connections: 64 })
  const remembered = new Map<string, Answer>()
  let count = 0

  async function pass(asked: IncomingMessage, body: Buffer): Promise<Answer> {
    const { connection: _connection, host: _host, ...headers } = asked.headers
    const {
      statusCode,
      headers: given,
      body: answer,
    } = await connections.request({
      origin,
      method: asked.method === 'POST' ? 'POST' : 'GET',
      path: asked.url ?? '/',
      headers,
      body: body.length === 0 ? null : body,
    })
    return { status: statusCode, type: String(given['content-type'] ?? ''), body: await answer.text() }
  }

  async function answerTo(asked: IncomingMessage, body: Buffer): Promise<Answer> {
    const isWrite = asked.method === 'POST'
    const isTurn = (count += 1) % 5 === 0
    if (wrong === 'crashes' && isTurn) return problem(500, 'internal_error')
    if (wrong === 'loses' && isWrite) return { status: 201, type: 'application/json', body: body.toString() }
    const answer = await pass(asked, body)
    if (wrong === 'lies' && isWrite) return problem(403, 'insufficient_scope')
    if (wrong !== 'remembers' && wrong !== 'mixes up') return answer
    const who = wrong === 'remembers' ? `${asked.headers.authorization ?? ''} ` : ''
    const name = `${who}${asked.method ?? ''} ${(asked.url ?? '').split('?', 1)[0] ?? ''}`
    const known = remembered.get(name)
    if (answer.status < 300) remembered.set(name, answer)
    // It answers of its memory whom it would refuse, or anyone.
    if (wrong === 'remembers') return answer.status < 400 ? answer : (known ?? answer)
    return isTurn ? (known ?? answer) : answer
  }

  const server = createServer((asked, response) => {
    const chunks: Buffer[] = []
    asked.on('data', (chunk: Buffer) => chunks.push(chunk))
    asked.on('end', () => {
      void answerTo(asked, Buffer.concat(chunks)).then(
        ({ status, type, body }) => response.writeHead(status, { 'content-type': type }).end(body),
        () => response.destroy(),
      )
    })
  })
  server.listen({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
      await connections.destroy()
    },
  }
}

function problem(status: number, code: string): Answer {
  return { status, type: 'application/problem+json', body: JSON.stringify({ status, code }) }
}
