import { Transform, pipeline } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from '@prometheus-io/client'
import { type ShareLimits, createTenantShares } from './tenant-shares.ts'

/** Gives each request its share, and counts the bytes of its body. Call it after the guard was added. */
export function shareAmongTenants(app: FastifyInstance, limits: ShareLimits, metrics: Registry): void {
  const refusals = new Counter({
    name: 'postern_tenant_share_refusals_total',
    help: 'Requests refused because their tenant has used its share of requests, or of the memory for bodies and answers',
    registers: [metrics],
  })
  const shares = createTenantShares(limits, () => refusals.inc())
  const held: Gauge = new Gauge({
    name: 'postern_held_bytes',
    help: 'Bytes of request bodies, and of rows for answers that are being read, that the process holds',
    registers: [metrics],
    collect(): void {
      held.set(shares.heldBytes)
    },
  })
  app.addHook('onRequest', (request, reply, done) => {
    const { tenantContext: context } = request
    const { contract } = request.routeOptions.config
    if (context === undefined || contract === undefined) {
      done()
      return
    }
    try {
      const share = shares.enter(context.tenantId)
      reply.raw.once('close', share.leave)
      request.tenantContext = { ...context, share }
      if (contract.body !== undefined) share.reserveBytes(Number(request.headers['content-length'] ?? 0))
      done()
    } catch (error) {
      done(error instanceof Error ? error : undefined)
    }
  })
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const share = request.tenantContext?.share
    const isChunked = request.headers['transfer-encoding'] !== undefined
    if (share === undefined || !isChunked || request.routeOptions.config.contract?.body === undefined) {
      done(null, payload)
      return
    }
    const counted = new Transform({
      transform: (chunk: Buffer, _encoding, next) => {
        try {
          share.reserveBytes(chunk.length)
          next(null, chunk)
        } catch (error) {
          next(error instanceof Error ? error : undefined)
        }
      },
    })
    pipeline(payload, counted, () => undefined)
    done(null, counted)
  })
}
