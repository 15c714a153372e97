// The yardstick: fastify with @fastify/http-proxy as its documentation sets it up, without authentication or any other
// work, with the connection settings that suit it best.
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
