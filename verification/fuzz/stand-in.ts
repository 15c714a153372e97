import { once } from 'node:events'
import { createServer } from 'node:http'
import { problemDocument } from '@postern/contracts'
import { Agent } from 'undici'

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** Faults that the fuzzer must detect. `canary` is a text of another tenant. */
export type Wrong = keyof typeof wrongs

type Twist = (answer: Answer, canary: string) => Answer

const twisted = ({ status, headers, text }: Answer, change: (json: object) => object): Answer => {
  const json: unknown = JSON.parse(text)
  return typeof json === 'object' && json !== null
    ? { status, headers, text: JSON.stringify(change(json)) }
    : { status, headers, text }
}

const saying = (answer: Answer, words: string): Answer =>
  twisted(answer, (json) => {
    const [name] = Object.entries(json).find(([, value]) => typeof value === 'string') ?? ['title']
    return { ...json, [name]: words }
  })

export const wrongs = {
  'returns its own error': (answer) => ({ ...answer, status: 500, text: problemOf('internal_error', answer) }),
  'shows data of another tenant': (answer, canary) => saying(answer, canary),
  'reveals internals': (answer) => saying(answer, 'duplicate key value in pg_class, SQLSTATE 23505'),
  'names its server': (answer) => ({ ...answer, headers: { ...answer.headers, server: 'nginx' } }),
  'adds an undocumented member': (answer) => twisted(answer, (json) => ({ ...json, undocumented: 1 })),
  'omits a documented member': (answer) => twisted(answer, (json) => Object.fromEntries(Object.entries(json).slice(1))),
  'has no request id': ({ status, text, headers: { 'x-request-id': _id, ...headers } }) => ({ status, text, headers }),
  'rejects a request after executing it': (answer) => ({
    status: 403,
    headers: { 'content-type': 'application/problem+json', 'x-request-id': idOf(answer) },
    text: problemOf('insufficient_scope', answer),
  }),
} as const satisfies Record<string, Twist>

function idOf({ headers }: Answer): string {
  return headers['x-request-id'] ?? ''
}

function problemOf(code: 'internal_error' | 'insufficient_scope', answer: Answer): string {
  return JSON.stringify(problemDocument(code, idOf(answer)))
}

/** Changes every response of a correct gateway by `wrong`. */
export async function startStandIn(origin: string, canary: string, wrong: Wrong | undefined) {
  return await startProxy(origin, (answer) => (wrong === undefined ? answer : wrongs[wrong](answer, canary)))
}

/** Replaces every rejection with the last successful response. */
export async function startAcceptingProxy(origin: string) {
  let last: Answer | undefined
  return await startProxy(origin, (answer) => {
    if (answer.status < 300) last = answer
    return last !== undefined && answer.status >= 400 ? last : answer
  })
}

export async function startProxyWithoutPointers(origin: string) {
  return await startProxy(origin, (answer) =>
    answer.status < 400 ? answer : twisted(answer, ({ ...json }) => ({ ...json, errors: undefined })),
  )
}

async function startProxy(origin: string, change: (answer: Answer) => Answer) {
  const connections = new Agent({ connections: 4 })
  const server = createServer((asked, response) => {
    const chunks: Buffer[] = []
    asked.on('data', (chunk: Buffer) => chunks.push(chunk))
    asked.on('end', () => {
      void pass(chunks).then(
        ({ status, headers, text }) => response.writeHead(status, headers).end(text),
        () => response.destroy(),
      )
    })
    const pass = async (body: readonly Buffer[]): Promise<Answer> => {
      const { connection: _connection, host: _host, ...given } = asked.headers
      const answer = await connections.request({
        origin,
        method: asked.method === 'POST' ? 'POST' : 'GET',
        path: asked.url ?? '/',
        headers: given,
        body: body.length === 0 ? null : Buffer.concat(body),
      })
      const { 'content-length': _length, 'transfer-encoding': _coding, ...rest } = answer.headers
      const headers = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)]))
      return change({ status: answer.statusCode, headers, text: await answer.body.text() })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the stand-in has no port')
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
