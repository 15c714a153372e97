import { Transform, pipeline } from 'node:stream'
import type { TenantContext } from '@postern/signed-context'
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from '@prometheus-io/client'
import { ProblemError } from './problem.ts'
import { type WaitingLine, type WaitingRequest, createWaitingLine } from './waiting-line.ts'

/** What the tenants of a service share. */
export interface ShareLimits {
  /** Requests that one tenant may have under way, until their answers have been read. */
  readonly maxRequests: number
  /** Exports and expanded answers that one tenant may have under way, until they have been read. */
  readonly maxLargeAnswers: number
  /** Bytes of request bodies and of rows for answers that the process may hold for all tenants. */
  readonly maxBytes: number
}

/**
 * Bytes of rows that one tenant may read at once, so that its large pages take turns and leave processor time to others. A page of
 * this size costs about 20 ms.
 */
const maxReadingBytes = 1024 * 1024
/** How long a large page waits for its turn and for memory. A client that repeats refused requests then costs little. */
const maxWaitMs = 5_000
/** Other tenants count as served until this long after their last request. */
const activeMs = 1_000
/** The longest pause after a large page: in milliseconds, and in times that the page took. */
const maxPauseMs = 1_000
const maxPauses = 3

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
  /** Whether a row of so many bytes may be held. */
  reserve(bytes: number): boolean
  /**
   * Waits until the tenant may read and hold so many more bytes of rows, and reserves them: `reserve` takes from them first.
   * `expectedBytes` is called whenever the request might begin; undefined means that the size is unknown. Rejects with a
   * ShareExceededError after five seconds. Call `releaseRead` when the rows have been read.
   */
  acquireRead(expectedBytes: () => number | undefined): Promise<void>
  /**
   * Lets the next large page of the tenant begin. While other tenants are served, it begins after a pause: one to three times as long
   * as this read, according to how many requests of the tenant wait.
   */
  releaseRead(): void
  /** Bytes of rows that were reserved by `reserve` since the last `releaseRows`. */
  readonly rowBytes: number
  /** Rows that were reserved by `reserve` since then. */
  readonly rowCount: number
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
  /** Bytes of the rows that are being read. */
  readingBytes: number
  /** Runs while its large pages pause. */
  pause: NodeJS.Timeout | undefined
  /** Requests that wait for `acquireRead`. */
  readonly line: WaitingLine
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
  /** The lines in which requests wait. */
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
    // `reserved` covers the rows: what they take, or were expected to take.
    let [ofRows, rowCount, reserved, fixed] = [0, 0, 0, 0]
    let isLarge = false
    let reading = 0
    let readSince = 0
    let waiting: WaitingRequest | undefined
    /** Whether the client has its answer or is gone: nothing would give back what is taken from now on. */
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

    /** Begins to read so many bytes of rows, if the tenant may. */
    function tryRead(expected: number | undefined): boolean {
      if (isSmall(expected)) return true
      if (tenant.pause !== undefined) return false
      const bytes = Math.min(expected ?? maxReadingBytes, maxReadingBytes)
      if (tenant.readingBytes > 0 && tenant.readingBytes + bytes > maxReadingBytes) return false
      const more = Math.max(0, (expected ?? 0) - reserved)
      if (take(more)) reserved += more
      // A tenant that holds nothing else is served, so that a wrong expectation is corrected.
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
        // A page that nobody waits for is dropped. What else is still read is a small part of a write.
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
  /** The latest request of any other tenant than that one. */
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

/** Whether a page is read at once, whatever else its tenant reads. */
function isSmall(expectedBytes: number | undefined): boolean {
  return expectedBytes !== undefined && expectedBytes <= freeBytes
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
