// node:http and undici without authentication, limits, log or checks.
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import { Pool } from 'undici'

const [port, upstream] = process.argv.slice(2)
if (port === undefined || upstream === undefined) throw new Error('usage: leanest-proxy.ts PORT UPSTREAM')

const pool = new Pool(upstream, { connections: 256, pipelining: 1, keepAliveTimeout: 30_000 })

const ownHeaders = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade'])

function passedHeaders(raw: readonly string[]): string[] {
  const passed: string[] = []
  for (let at = 0; at < raw.length; at += 2) {
    const [name = '', value = ''] = [raw[at], raw[at + 1]]
    if (!ownHeaders.has(name.toLowerCase())) passed.push(name, value)
  }
  return passed
}

function forward(request: IncomingMessage, response: ServerResponse): void {
  const { method = 'GET', url = '/' } = request
  const hasBody = request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined
  pool.dispatch(
    {
      path: url,
      method,
      headers: passedHeaders(request.rawHeaders),
      body: hasBody ? request : null,
    },
    {
      onRequestStart: () => undefined,
      onResponseStart: (_controller, statusCode, headers) => {
        const { connection: _, 'keep-alive': _keepAlive, 'transfer-encoding': _coding, ...passed } = headers
        response.writeHead(statusCode, passed)
      },
      onResponseData: (controller, chunk) => {
        if (response.write(chunk)) return
        controller.pause()
        response.once('drain', () => controller.resume())
      },
      onResponseEnd: () => void response.end(),
      onResponseError: () => void (response.headersSent ? response.destroy() : response.writeHead(502).end()),
    },
  )
}

const server = createServer({ keepAliveTimeout: 3_600_000 }, forward)
server.listen(Number(port), '127.0.0.1')
