import { Transform, pipeline } from 'node:stream'
import type { TenantContext } from '@postern/signed-context'
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from '@prometheus-io/client'
import { ProblemError } from './problem.ts'
import { type WaitingLine, type WaitingRequest, createWaitingLine } from './waiting-line.ts'

/** What the tenants of a service share. */
export interface ShareLimits {
  /** The most open requests of a tenant, until their answers have been read. */
  readonly maxRequests: number
  /** The most open exports and expanded answers of a tenant, until they have been read. */
  readonly maxLargeAnswers: number
  /** The most bytes of request bodies and of rows for answers, for all tenants. */
  readonly maxBytes: number
}

/** Bytes of rows that one tenant may read at once. Its large pages take turns, so that others get processor time. */
const maxReadingBytes = 1024 * 1024
/** How long a large page waits for its turn and for memory, so that repeating rejected requests costs little. */
const maxWaitMs = 5_000
/** How long another tenant counts as active after its last request. */
const activeMs = 1_000
/** The longest pause after a large page: in milliseconds, and as a multiple of the page's time. */
const maxPauseMs = 1_000
const maxPauses = 3

/** Bytes that every request may hold, enough for a resource or a short page. */
const freeBytes = 64 * 1024
/** Bytes that a streamed answer holds, whatever its length. */
export const streamedAnswerBytes: number = 256 * 1024

const tooManyRequests = 'Your organization has too many requests under way. Wait for their answers, then try again.'
const tooManyLargeAnswers =
  'Your organization has too many exports or expanded answers under way. Read them, then try again.'
const tooManyBytes =
  'Your organization has too many large requests or unread answers. Read the answers, then try again.'

/** A request would exceed the share of its tenant. */
export class ShareExceededError extends ProblemError {
  constructor(detail: string) {
    super('too_many_requests', { detail, retryAfterSeconds: 1 })
  }
}

/** What one request holds of its tenant's share. */
export interface RequestShare {
  /** Reserves the bytes of a row. Returns false if the tenant's share is exceeded. */
  reserve(bytes: number): boolean
  /**
   * Waits until the tenant may read and hold this many bytes of rows, and reserves them for `reserve`. `expectedBytes`
   * returns undefined if the size is unknown. Rejects with a ShareExceededError after five seconds. Call `releaseRead`
   * afterwards.
   */
  acquireRead(expectedBytes: () => number | undefined): Promise<void>
  /**
   * Lets the tenant's next large page begin. While other tenants are active, it pauses one to three times as long as
   * this read, depending on how many requests of the tenant wait.
   */
  releaseRead(): void
  /** Bytes that `reserve` has counted since the last `releaseRows`. */
  readonly rowBytes: number
  /** Rows that were reserved by `reserve` since then. */
  readonly rowCount: number
  /** The error for a statement whose rows exceed the share. */
  refusal(): Error
  /** Releases rows that were passed on, before the next part is read. */
  releaseRows(): void
  /** Holds `bytes` until the answer has been sent. Throws a ShareExceededError. */
  hold(bytes: number): void
  /**
   * Counts an export or an answer with `expand`, which needs several times the memory of its rows. Call it before rows
   * are read. Throws a ShareExceededError.
   */
  enterLargeAnswer(): void
}

/** The context of a public request, with its share. */
export interface RequestContext extends TenantContext {
  readonly share?: RequestShare | undefined
}

/** Of one process. */
export interface TenantShares {
  /** Starts a request. Throws a ShareExceededError if its tenant has too many. */
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
  /** Bytes of the rows that are being read. */
  readingBytes: number
  /** Runs while its large pages pause. */
  pause: NodeJS.Timeout | undefined
  /** Requests that wait for `acquireRead`. */
  readonly line: WaitingLine
}

/**
 * Divides requests and memory among tenants. A tenant may hold three times what is left for the others (dynamic
 * thresholds, Choudhury and Hahne, 1998), so at most three quarters.
 */
export function createTenantShares(
  { maxRequests, maxLargeAnswers, maxBytes }: ShareLimits,
  onRefused: () => void,
): TenantShares {
  const tenants = new Map<string, Tenant>()
  /** The queues of waiting requests. */
  const lines = new Set<WaitingLine>()
  const activity = createActivity()
  let heldBytes = 0

  /** Begins what waited for something that was given back. */
  function serveWaiting(): void {
    for (const line of lines) {
      line.serve()
      if (line.length === 0) lines.delete(line)
    }
  }

  function enter(tenantId: string): EnteredShare {
    const tenant = tenants.get(tenantId) ?? {
      requests: 0,
      largeAnswers: 0,
      bytes: 0,
      readingBytes: 0,
      pause: undefined,
      line: createWaitingLine(maxWaitMs),
    }
    // `reserved` covers the rows, whether read or expected.
    let [ofRows, rowCount, reserved, fixed] = [0, 0, 0, 0]
    let isLarge = false
    let reading = 0
    let readSince = 0
    let waiting: WaitingRequest | undefined
    /** Whether the answer was sent or the client disconnected. Nothing would release later reservations. */
    let hasLeft = false
    activity.record(tenantId)
    if (tenant.requests >= maxRequests) throw refuse(tooManyRequests)
    tenants.set(tenantId, tenant)
    tenant.requests += 1

    function refuse(detail: string): ShareExceededError {
      if (!hasLeft) onRefused()
      return new ShareExceededError(detail)
    }

    function take(bytes: number): boolean {
      if (reserved + fixed + bytes > freeBytes && tenant.bytes + bytes > 3 * (maxBytes - heldBytes - bytes))
        return false
      tenant.bytes += bytes
      heldBytes += bytes
      return true
    }

    function giveBack(bytes: number): void {
      tenant.bytes -= bytes
      heldBytes -= bytes
    }

    /** Starts to read this many bytes of rows, if the tenant may. */
    function tryRead(expected: number | undefined): boolean {
      if (isSmall(expected)) return true
      if (tenant.pause !== undefined) return false
      const bytes = Math.min(expected ?? maxReadingBytes, maxReadingBytes)
      if (tenant.readingBytes > 0 && tenant.readingBytes + bytes > maxReadingBytes) return false
      const more = Math.max(0, (expected ?? 0) - reserved)
      if (take(more)) reserved += more
      // A tenant that holds nothing else is served, so that a wrong estimate is corrected.
      else if (tenant.bytes > reserved + fixed) return false
      reading = bytes
      readSince = performance.now()
      tenant.readingBytes += bytes
      return true
    }

    function pauseReads(ms: number): void {
      clearTimeout(tenant.pause)
      tenant.pause = setTimeout(() => {
        tenant.pause = undefined
        forgetIdleTenant()
        serveWaiting()
      }, ms)
      tenant.pause.unref()
    }

    function forgetIdleTenant(): void {
      if (tenant.requests === 0 && tenant.readingBytes === 0 && tenant.pause === undefined) tenants.delete(tenantId)
    }

    return {
      reserve: (bytes) => {
        // A page without a client is dropped. Other remaining reads are small parts of a write.
        if (hasLeft) return reading === 0
        const more = Math.max(0, ofRows + bytes - reserved)
        if (more > 0 && !take(more)) return false
        ofRows += bytes
        rowCount += 1
        reserved += more
        return true
      },
      acquireRead: async (expectedBytes) => {
        if (hasLeft) throw refuse(tooManyBytes)
        const isNext = tenant.line.length === 0 || isSmall(expectedBytes())
        if (isNext && tryRead(expectedBytes())) return
        waiting = tenant.line.append(() => tryRead(expectedBytes()))
        lines.add(tenant.line)
        const hasBegun = await waiting.hasBegun
        waiting = undefined
        if (!hasBegun) throw refuse(tooManyBytes)
      },
      releaseRead: () => {
        const crowd = Math.min(tenant.line.length, maxPauses)
        if (reading > 0 && crowd > 0 && activity.hasOthers(tenantId)) {
          pauseReads(Math.min(crowd * (performance.now() - readSince), maxPauseMs))
        }
        tenant.readingBytes -= reading
        reading = 0
        forgetIdleTenant()
        serveWaiting()
      },
      get rowBytes() {
        return ofRows
      },
      get rowCount() {
        return rowCount
      },
      refusal: () => refuse(tooManyBytes),
      releaseRows: () => {
        giveBack(reserved)
        ;[ofRows, rowCount, reserved] = [0, 0, 0]
        serveWaiting()
      },
      hold: (bytes) => {
        if (hasLeft || !take(bytes)) throw refuse(tooManyBytes)
        fixed += bytes
      },
      enterLargeAnswer: () => {
        if (isLarge || hasLeft) return
        if (tenant.largeAnswers >= maxLargeAnswers) throw refuse(tooManyLargeAnswers)
        tenant.largeAnswers += 1
        isLarge = true
      },
      leave: () => {
        hasLeft = true
        giveBack(reserved + fixed)
        ;[ofRows, rowCount, reserved, fixed] = [0, 0, 0, 0]
        waiting?.leave()
        if (isLarge) tenant.largeAnswers -= 1
        isLarge = false
        tenant.requests -= 1
        forgetIdleTenant()
        serveWaiting()
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

/** Remembers which tenants have sent requests lately. */
function createActivity() {
  let latest = { tenantId: '', at: -Infinity }
  /** The latest request of any other tenant. */
  let latestOfOthers = latest
  return {
    record: (tenantId: string): void => {
      if (tenantId !== latest.tenantId) latestOfOthers = latest
      latest = { tenantId, at: performance.now() }
    },
    hasOthers: (tenantId: string): boolean => {
      const { at } = latest.tenantId === tenantId ? latestOfOthers : latest
      return performance.now() - at < activeMs
    },
  }
}

/** Whether a page is read immediately, whatever else its tenant reads. */
function isSmall(expectedBytes: number | undefined): boolean {
  return expectedBytes !== undefined && expectedBytes <= freeBytes
}

/** Limits every public request to its tenant's share. Call it after the guard was added. */
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
    // Whoever reads the body receives the error.
    pipeline(payload, counted, () => undefined)
    done(null, counted)
  })
}
