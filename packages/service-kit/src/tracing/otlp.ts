import { AsyncLocalStorage } from 'node:async_hooks'
import { channel } from 'node:diagnostics_channel'
import {
  type Span as OtelSpan,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  diag,
  trace,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Span, Tracing, TracingSource } from './tracing.ts'

const closeWithinMs = 5_000

class OtlpSpan implements Span {
  readonly otel: OtelSpan

  constructor(otel: OtelSpan) {
    this.otel = otel
  }

  get traceId(): string {
    return this.otel.spanContext().traceId
  }

  get traceparent(): string {
    return formatTraceparent(this.otel.spanContext())
  }

  end(status: number): void {
    if (status > 0) this.otel.setAttribute('http.response.status_code', status)
    if (status >= 500 || status === 0) this.otel.setStatus({ code: SpanStatusCode.ERROR })
    this.otel.end()
  }
}

export function openOtlpTracing(
  { url, percent }: { readonly url: string; readonly percent: number },
  { service, onFailure, followsCaller }: TracingSource,
): Tracing {
  diag.setLogger({ error: onFailure, warn: onFailure, info: ignore, debug: ignore, verbose: ignore })
  const ratio = new TraceIdRatioBasedSampler(percent / 100)
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': `postern-${service}`, 'service.namespace': 'postern' }),
    sampler: followsCaller ? new ParentBasedSampler({ root: ratio }) : ratio,
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter({ url: `${url}/v1/traces`, timeoutMillis: closeWithinMs }),
      }),
    ],
  })
  const tracer = provider.getTracer('postern')
  const active = new AsyncLocalStorage<OtlpSpan>()
  const stopListening = listen(tracer, active)
  return {
    begin: ({ name, attributes, parent }) => {
      const remote = parseTraceparent(parent)
      const context = remote === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, remote)
      return new OtlpSpan(tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, context))
    },
    run: (span, work) => (span instanceof OtlpSpan ? active.run(span, work) : work()),
    trace: async (name, attributes, work) => {
      const span = new OtlpSpan(tracer.startSpan(name, { kind: SpanKind.INTERNAL, attributes }, ROOT_CONTEXT))
      try {
        return await active.run(span, work)
      } catch (error) {
        span.otel.setStatus({ code: SpanStatusCode.ERROR })
        throw error
      } finally {
        span.otel.end()
      }
    },
    logFields: () => {
      const span = active.getStore()
      return span === undefined ? {} : { trace_id: span.traceId }
    },
    close: async () => {
      stopListening()
      const limit = new Promise<void>((resolve) => void setTimeout(resolve, closeWithinMs).unref())
      await Promise.race([provider.shutdown().catch((error: unknown) => onFailure(String(error))), limit])
    },
  }
}

interface StatementMessage {
  readonly text: string
  readonly name: string | undefined
  ended: ((error: unknown) => void) | undefined
}

function listen(tracer: Tracer, active: AsyncLocalStorage<OtlpSpan>): () => void {
  const begin = (name: string, attributes: Readonly<Record<string, string>>): OtelSpan | undefined => {
    const parent = active.getStore()
    if (parent === undefined) return undefined
    return tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, trace.setSpan(ROOT_CONTEXT, parent.otel))
  }
  const onStatement = (message: unknown): void => {
    if (!isStatement(message)) return
    const operation = message.text.trimStart().split(/\s/, 1)[0]?.toUpperCase() ?? 'SQL'
    const span = begin(message.name ?? operation, {
      'db.system.name': 'postgresql',
      'db.operation.name': operation,
      'db.query.text': message.text,
    })
    if (span === undefined) return
    message.ended = (error) => {
      if (error !== undefined && error !== null) span.setStatus({ code: SpanStatusCode.ERROR })
      span.end()
    }
  }
  const requests = new WeakMap<object, OtelSpan>()
  const onRequest = (message: unknown): void => {
    const request = requestIn(message)
    if (request === undefined) return
    const span = begin(`${request.method} ${request.origin}`, {
      'http.request.method': request.method,
      'server.address': request.origin,
    })
    if (span === undefined) return
    requests.set(request, span)
    request.addHeader('traceparent', formatTraceparent(span.spanContext()))
  }
  const onEnd = (message: unknown): void => {
    const request = requestIn(message)
    if (request === undefined) return
    const span = requests.get(request)
    requests.delete(request)
    if (typeof message === 'object' && message !== null && 'error' in message) {
      span?.setStatus({ code: SpanStatusCode.ERROR })
    }
    span?.end()
  }
  const listeners = [
    ['postern:statement', onStatement],
    ['undici:request:create', onRequest],
    ['undici:request:trailers', onEnd],
    ['undici:request:error', onEnd],
  ] as const
  for (const [name, listener] of listeners) channel(name).subscribe(listener)
  return () => {
    for (const [name, listener] of listeners) channel(name).unsubscribe(listener)
  }
}

function isStatement(message: unknown): message is StatementMessage {
  return typeof message === 'object' && message !== null && 'text' in message && typeof message.text === 'string'
}

interface UndiciRequest {
  readonly method: string
  readonly origin: string
  addHeader(name: string, value: string): unknown
}

function requestIn(message: unknown): UndiciRequest | undefined {
  if (typeof message !== 'object' || message === null || !('request' in message)) return undefined
  return isRequest(message.request) ? message.request : undefined
}

function isRequest(request: unknown): request is UndiciRequest {
  return typeof request === 'object' && request !== null && 'addHeader' in request && 'method' in request
}

/** Parses version 00 of W3C Trace Context; undefined if it is invalid. */
function parseTraceparent(text: string | undefined): SpanContext | undefined {
  const match = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/.exec(text ?? '')
  if (match === null) return undefined
  const [, traceId = '', spanId = '', flags = '00'] = match
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
}

function formatTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${(traceFlags & 1) === 1 ? '01' : '00'}`
}

function ignore(): void {}
