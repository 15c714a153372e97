// fastify with @fastify/http-proxy as documented, with its best connection settings.
import httpProxy from '@fastify/http-proxy'
import { fastify } from 'fastify'

const [port, upstream] = process.argv.slice(2)
if (port === undefined || upstream === undefined) throw new Error('usage: http-proxy.ts PORT UPSTREAM')

const app = fastify({ logger: false })
await app.register(httpProxy, {
  upstream,
  disableRequestLogging: true,
  undici: { connections: 256, pipelining: 1, keepAliveTimeout: 30_000 },
})
await app.listen({ host: '127.0.0.1', port: Number(port) })
