import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Span, Tracing } from './tracing.ts'

export function traceRequests(app: FastifyInstance, tracing: Tracing): void {
  const spans = new WeakMap<FastifyRequest, Span>()
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.routeOptions.config.guard === 'open') {
      done()
      return
    }
    const route = request.routeOptions.url ?? 'unknown'
    const { traceparent } = request.headers
    const span = tracing.begin({
      name: `${request.method} ${route}`,
      attributes: { 'http.request.method': request.method, 'http.route': route, 'postern.request_id': request.id },
      parent: typeof traceparent === 'string' ? traceparent : undefined,
    })
    spans.set(request, span)
    tracing.run(span, done)
  })
  // Reading a body continues in the context of the socket.
  app.addHook('preHandler', (request, _reply, done) => {
    const span = spans.get(request)
    if (span === undefined) done()
    else tracing.run(span, done)
  })
  app.addHook('onResponse', (request, reply, done) => {
    spans.get(request)?.end(reply.statusCode)
    done()
  })
  app.addHook('onRequestAbort', (request, done) => {
    spans.get(request)?.end(0)
    spans.delete(request)
    done()
  })
}
