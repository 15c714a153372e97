import { Transform, pipeline } from 'node:stream'
import type { TenantContext } from '@postern/signed-context'
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from '@prometheus-io/client'
import { ProblemError } from './problem.ts'

/** What the tenants of a service share. */
export interface ShareLimits {
  /** Requests that one tenant may have under way, until their answers have been read. */
  readonly maxRequests: number
  /** Exports and expanded answers that one tenant may have under way, until they have been read. */
  readonly maxLargeAnswers: number
  /** Bytes of request bodies and of rows for answers that the process may hold for all tenants. */
  readonly maxBytes: number
}

/** Bytes that every request may hold, whatever else its tenant holds: enough for a resource or a page of short ones. */
const freeBytes = 64 * 1024
/** Held by an answer that is streamed: its buffers, whatever its length. */
export const streamedAnswerBytes: number = 256 * 1024

const tooManyRequests = 'Your organization has too many requests under way. Wait for their answers, then try again.'
const tooManyLargeAnswers =
  'Your organization has too many exports or expanded answers under way. Read them, then try again.'
const tooManyBytes =
  'Your organization has too many large requests or unread answers. Read the answers, then try again.'

/** A request would hold more than the share of its tenant. */
export class ShareExceededError extends ProblemError {
  constructor(detail: string) {
    super('too_many_requests', { detail, retryAfterSeconds: 1 })
  }
}

/** What one request holds of its tenant's share. */
export interface RequestShare {
  /** Whether so many more bytes of rows may be held. */
  reserve(bytes: number): boolean
  /**
   * Reserves what the rows will probably take, before they are read. Throws a ShareExceededError if that is too much beside what
   * the tenant already holds. `reserve` takes from it first.
   */
  expect(bytes: number): void
  /** Bytes of rows that were reserved by `reserve` since the last `releaseRows`. */
  readonly rowBytes: number
  /** The error of a statement whose rows may not be held. */
  refusal(): Error
  /** Gives back what rows have taken: they were passed on, and the next part of the answer is read. */
  releaseRows(): void
  /** Holds `bytes` until the answer has been sent. Throws a ShareExceededError where that is too much. */
  hold(bytes: number): void
  /**
   * Counts the request among those that need several times the memory of their rows: exports, and answers with `expand`. To be called
   * before rows are read. Throws a ShareExceededError if the tenant has as many as it may.
   */
  enterLargeAnswer(): void
}

/** The context of a request of the public API, with what it may hold. */
export interface RequestContext extends TenantContext {
  readonly share?: RequestShare | undefined
}

/** Of one process. */
export interface TenantShares {
  /** Begins a request. Throws a ShareExceededError where its tenant has as many as it may. */
  enter(tenantId: string): EnteredShare
  readonly heldBytes: number
}

interface EnteredShare extends RequestShare {
  /** To be called when the answer has been sent. */
  leave(): void
}

interface Tenant {
  requests: number
  largeAnswers: number
  bytes: number
}

/**
 * Shares requests and memory out among tenants. One tenant may hold three times what is left for the others (dynamic thresholds,
 * Choudhury and Hahne, 1998): three quarters of all while it is alone.
 */
export function createTenantShares(
  { maxRequests, maxLargeAnswers, maxBytes }: ShareLimits,
  onRefused: () => void,
): TenantShares {
  const tenants = new Map<string, Tenant>()
  let heldBytes = 0

  function refuse(detail: string): ShareExceededError {
    onRefused()
    return new ShareExceededError(detail)
  }

  function enter(tenantId: string): EnteredShare {
    const tenant = tenants.get(tenantId) ?? { requests: 0, largeAnswers: 0, bytes: 0 }
    if (tenant.requests >= maxRequests) throw refuse(tooManyRequests)
    tenants.set(tenantId, tenant)
    tenant.requests += 1
    // `reserved` covers the rows: what they take, or were expected to take.
    let [ofRows, reserved, fixed] = [0, 0, 0]
    let isLarge = false

    function take(bytes: number): boolean {
      const isSmall = reserved + fixed + bytes <= freeBytes
      if (!isSmall && tenant.bytes + bytes > 3 * (maxBytes - heldBytes - bytes)) return false
      tenant.bytes += bytes
      heldBytes += bytes
      return true
    }

    function giveBack(bytes: number): void {
      tenant.bytes -= bytes
      heldBytes -= bytes
    }

    return {
      reserve: (bytes) => {
        const more = Math.max(0, ofRows + bytes - reserved)
        if (more > 0 && !take(more)) return false
        ofRows += bytes
        reserved += more
        return true
      },
      expect: (bytes) => {
        const more = Math.max(0, bytes - reserved)
        if (more === 0) return
        if (take(more)) reserved += more
        // A tenant that holds nothing else is served, so that a wrong expectation is corrected.
        else if (tenant.bytes > reserved + fixed) throw refuse(tooManyBytes)
      },
      get rowBytes() {
        return ofRows
      },
      refusal: () => refuse(tooManyBytes),
      releaseRows: () => {
        giveBack(reserved)
        ;[ofRows, reserved] = [0, 0]
      },
      hold: (bytes) => {
        if (!take(bytes)) throw refuse(tooManyBytes)
        fixed += bytes
      },
      enterLargeAnswer: () => {
        if (isLarge) return
        if (tenant.largeAnswers >= maxLargeAnswers) throw refuse(tooManyLargeAnswers)
        tenant.largeAnswers += 1
        isLarge = true
      },
      leave: () => {
        giveBack(reserved + fixed)
        ;[ofRows, reserved, fixed] = [0, 0, 0]
        if (isLarge) tenant.largeAnswers -= 1
        isLarge = false
        tenant.requests -= 1
        if (tenant.requests === 0) tenants.delete(tenantId)
      },
    }
  }

  return {
    enter,
    get heldBytes() {
      return heldBytes
    },
  }
}

/** Holds every request of the public API to the share of its tenant. To be called after the guard has been added. */
export function shareAmongTenants(app: FastifyInstance, limits: ShareLimits, metrics: Registry): void {
  const refusals = new Counter({
    name: 'postern_tenant_share_refusals_total',
    help: 'Requests that were refused because their tenant has its share of requests, or of the memory for bodies and answers',
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
      if (contract.body !== undefined) share.hold(Number(request.headers['content-length'] ?? 0))
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
          share.hold(chunk.length)
          next(null, chunk)
        } catch (error) {
          next(error instanceof Error ? error : undefined)
        }
      },
    })
    // An error reaches whoever reads the body; there is nobody else to tell.
    pipeline(payload, counted, () => undefined)
    done(null, counted)
  })
}
