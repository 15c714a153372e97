import type { FastifyRequest } from 'fastify'
import type { Logger } from './logger.ts'
import type { RequestContext } from './tenant-shares.ts'

export interface AnswerControl {
  /** Default: the lowest 2xx of the contract. */
  status(code: number): void
  header(name: string, value: string): void
  /** `value` includes the quotes. A GET with a matching `If-None-Match` gets 304. */
  etag(value: string): void
}

export interface RequestInfo {
  readonly mediaType: string
  readonly context: RequestContext
  readonly requestId: string
  readonly answer: AnswerControl
  readonly raw: FastifyRequest
  readonly log: Logger
}
