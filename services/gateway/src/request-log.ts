import type { Logger, SpanStart } from '@postern/service-kit'
import type { Clocks } from './authenticate/clocks.ts'
import { type Exchange, sendProblem } from './exchange.ts'
import type { GatewayMetrics } from './metrics.ts'

type CrashedRequest = Pick<Exchange, 'request' | 'response' | 'requestId' | 'basePath'> & Partial<Exchange>

export interface RequestLog {
  /** HOT PATH. Status 0: the client disconnected. */
  done(exchange: Exchange, status: number, isForwarded?: boolean): void
  /** Answers with 500 if it can, and returns whether it did. */
  crashed(exchange: CrashedRequest, error: unknown): boolean
}

/** Counts requests, and logs them if `isOn`. */
export function createRequestLog(parts: {
  readonly isOn: boolean
  readonly clocks: Pick<Clocks, 'monotonic'>
  readonly metrics: Pick<GatewayMetrics, 'request'>
  readonly logger: Logger
}): RequestLog {
  const { isOn, clocks, metrics, logger } = parts
  return {
    done: (exchange, status, isForwarded = false) => {
      const route = exchange.route?.id ?? 'none'
      const milliseconds = clocks.monotonic() - exchange.startedAt
      metrics.request(route, status, milliseconds / 1000, isForwarded)
      exchange.span?.end(status)
      if (!isOn) return
      logger.info({
        event: 'request',
        request_id: exchange.requestId,
        method: exchange.method,
        route,
        status,
        duration_ms: Math.round(milliseconds * 100) / 100,
        address: exchange.address,
        ...traceOf(exchange),
        ...(exchange.principal === undefined
          ? {}
          : {
              tenant_id: exchange.principal.tenantId,
              caller: exchange.principal.kind,
              caller_id: exchange.principal.id,
            }),
      })
    },
    crashed: (exchange, error) => {
      const { response } = exchange
      const isOpen = !response.headersSent && !response.destroyed
      logger.error({ event: 'request_crashed', request_id: exchange.requestId, ...traceOf(exchange), err: error })
      sendProblem(exchange, 'internal_error')
      return isOpen
    },
  }
}

export function traceOf({ span }: Partial<Exchange>): { readonly trace_id?: string } {
  return span === undefined ? {} : { trace_id: span.traceId }
}

/** The route, not the URL. */
export function spanOf({ method, route, requestId, headers }: Exchange): SpanStart {
  const path = route?.path ?? 'unknown'
  const at = headers.passed.indexOf('traceparent')
  return {
    name: `${method} ${path}`,
    attributes: { 'http.request.method': method, 'http.route': path, 'postern.request_id': requestId },
    parent: at % 2 === 0 ? headers.passed[at + 1] : undefined,
  }
}
