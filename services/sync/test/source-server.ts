import { once } from 'node:events'
import { type IncomingMessage, type RequestListener, type ServerResponse, createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { generate } from 'selfsigned'

export type Answers = Record<string, (request: IncomingMessage, response: ServerResponse) => void>

export interface SourceServer {
  readonly port: number
  readonly url: string
  readonly asked: string[]
  close(): Promise<void>
}

/** An HTTP server on all addresses, whose answers a test may change. */
export async function startSourceServer(answers: Answers): Promise<SourceServer> {
  const asked: string[] = []
  const server = createServer(answering(answers, asked))
  return await listening(server, 'http', asked)
}

export async function startTlsSourceServer(
  answers: Answers,
  { key, cert }: { readonly key: string; readonly cert: string },
): Promise<SourceServer> {
  const asked: string[] = []
  return await listening(createTlsServer({ key, cert }, answering(answers, asked)), 'https', asked)
}

function answering(answers: Answers, asked: string[]): RequestListener {
  return (request, response) => {
    const path = request.url ?? ''
    asked.push(path)
    const answer = answers[path.split('?')[0] ?? '']
    if (answer === undefined) response.writeHead(404).end()
    else answer(request, response)
  }
}

async function listening(
  server: ReturnType<typeof createServer>,
  scheme: string,
  asked: string[],
): Promise<SourceServer> {
  server.listen(0, '0.0.0.0')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  return {
    port,
    url: `${scheme}://127.0.0.1:${port}`,
    asked,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A self-signed certificate for these names, with its key. */
export async function makeCertificate(names: readonly string[]): Promise<{ key: string; cert: string }> {
  const altNames = names.map((value) => ({ type: 2 as const, value }))
  const made = await generate([{ name: 'commonName', value: names[0] ?? 'test' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [
      { name: 'basicConstraints', cA: true },
      { name: 'subjectAltName', altNames: [...altNames, { type: 7, ip: '127.0.0.1' }] },
    ],
  })
  return { key: made.private, cert: made.cert }
}
