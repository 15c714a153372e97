// @fastify/http-proxy with key lookup by hash, a limit and an HMAC signature, but no revocation, tenant assertion,
// metrics or audit trail.
import { createHash, createHmac } from 'node:crypto'
import httpProxy from '@fastify/http-proxy'
import { fastify } from 'fastify'

const [port, upstream, key] = process.argv.slice(2)
if (port === undefined || upstream === undefined || key === undefined) {
  throw new Error('usage: keyed-http-proxy.ts PORT UPSTREAM KEY')
}

interface KeyRecord {
  readonly tenant: string
  readonly scopes: readonly string[]
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
  requests: number
}

const secret = 'a secret of the upstream'
const limit = 1_000_000_000
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')
const records = new Map<string, KeyRecord>([
  [hashOf(key), { tenant: 'bench', scopes: ['read:findings'], expiresAt: Date.now() + 86_400_000, requests: 0 }],
])

const app = fastify({ logger: false })
await app.register(httpProxy, {
  upstream,
  disableRequestLogging: true,
  undici: { connections: 256, pipelining: 1, keepAliveTimeout: 30_000 },
  preHandler: (request, reply, done) => {
    const [scheme, given = ''] = (request.headers.authorization ?? '').split(' ')
    const record = scheme === 'ApiKey' ? records.get(hashOf(given)) : undefined
    const refuse = (status: number): void => void reply.code(status).send({ status })
    if (record === undefined || record.expiresAt < Date.now()) return refuse(401)
    if (!record.scopes.includes('read:findings')) return refuse(403)
    record.requests += 1
    if (record.requests > limit) return refuse(429)
    request.headers['x-tenant'] = record.tenant
    done()
  },
  replyOptions: {
    rewriteRequestHeaders: (request, headers) => {
      const { authorization: _authorization, ...passed } = headers
      const created = Math.floor(Date.now() / 1000)
      const base = `${request.method} ${request.url} ${String(headers['x-tenant'])} ${created}`
      const signature = createHmac('sha256', secret).update(base).digest('base64')
      return { ...passed, 'signature-input': `sig=();created=${created}`, signature: `sig=:${signature}:` }
    },
  },
})
await app.listen({ host: '127.0.0.1', port: Number(port) })
