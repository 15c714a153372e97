import type { TenantContext } from '@postern/signed-context'
import { ProblemError } from './problem.ts'
import { type WaitQueue, type WaitingRequest, createWaitQueue } from './wait-queue.ts'

export interface ShareLimits {
  readonly maxRequests: number
  readonly maxLargeAnswers: number
  readonly maxBytes: number
}

const maxReadingBytes = 1024 * 1024
/** Repeating rejected requests must cost little. */
const maxWaitMs = 5_000
const activeMs = 1_000
const maxPauseMs = 1_000
const maxPauses = 3

const freeBytes = 64 * 1024
export const streamedAnswerBytes: number = 256 * 1024

const tooManyRequests = 'Your organization has too many requests under way. Wait for their answers, then try again.'
const tooManyLargeAnswers =
  'Your organization has too many exports or expanded answers under way. Read them, then try again.'
const tooManyBytes =
  'Your organization has too many large requests or unread answers. Read the answers, then try again.'

export class ShareExceededError extends ProblemError {
  constructor(detail: string) {
    super('too_many_requests', { detail, retryAfterSeconds: 1 })
  }
}

export interface RequestShare {
  reserve(bytes: number): boolean
  /**
   * Waits for the turn to read; `expectedBytes` returns undefined if unknown. Rejects with a ShareExceededError after
   * five seconds. Call `releaseRead` afterwards.
   */
  acquireRead(expectedBytes: () => number | undefined): Promise<void>
  /** The tenant's next read waits a moment if other tenants are active. */
  releaseRead(): void
  /** Counted since the last `releaseRows`. */
  readonly rowBytes: number
  readonly rowCount: number
  refusal(): Error
  releaseRows(): void
  /** Reserves bytes until the answer was sent. Throws a ShareExceededError. */
  reserveBytes(bytes: number): void
  /** Call it before rows are read. Throws a ShareExceededError. */
  enterLargeAnswer(): void
}

export interface RequestContext extends TenantContext {
  readonly share?: RequestShare | undefined
}

export interface TenantShares {
  /** Throws a ShareExceededError if the tenant has too many requests. */
  enter(tenantId: string): EnteredShare
  readonly heldBytes: number
}

interface EnteredShare extends RequestShare {
  leave(): void
}

interface Tenant {
  requests: number
  largeAnswers: number
  bytes: number
  readingBytes: number
  pause: NodeJS.Timeout | undefined
  readonly queue: WaitQueue
}

/**
 * Divides requests and memory: a tenant may hold three times what is left for the others (dynamic thresholds, Choudhury
 * and Hahne, 1998).
 */
export function createTenantShares(
  { maxRequests, maxLargeAnswers, maxBytes }: ShareLimits,
  onRefused: () => void,
): TenantShares {
  const tenants = new Map<string, Tenant>()
  const queues = new Set<WaitQueue>()
  const activity = createActivity()
  let heldBytes = 0

  function serveWaiting(): void {
    for (const queue of queues) {
      queue.serve()
      if (queue.length === 0) queues.delete(queue)
    }
  }

  function enter(tenantId: string): EnteredShare {
    const tenant = tenants.get(tenantId) ?? {
      requests: 0,
      largeAnswers: 0,
      bytes: 0,
      readingBytes: 0,
      pause: undefined,
      queue: createWaitQueue(maxWaitMs),
    }
    let [ofRows, rowCount, reserved, fixed] = [0, 0, 0, 0]
    let isLarge = false
    let reading = 0
    let readSince = 0
    let waiting: WaitingRequest | undefined
    /** After the answer, no one would release a reservation. */
    let hasLeft = false
    activity.record(tenantId)
    if (tenant.requests >= maxRequests) throw refuse(tooManyRequests)
    tenants.set(tenantId, tenant)
    tenant.requests += 1

    function refuse(detail: string): ShareExceededError {
      if (!hasLeft) onRefused()
      return new ShareExceededError(detail)
    }

    function tryReserve(bytes: number): boolean {
      if (reserved + fixed + bytes > freeBytes && tenant.bytes + bytes > 3 * (maxBytes - heldBytes - bytes))
        return false
      tenant.bytes += bytes
      heldBytes += bytes
      return true
    }

    function releaseBytes(bytes: number): void {
      tenant.bytes -= bytes
      heldBytes -= bytes
    }

    function tryStartRead(expected: number | undefined): boolean {
      if (isSmall(expected)) return true
      if (tenant.pause !== undefined) return false
      const bytes = Math.min(expected ?? maxReadingBytes, maxReadingBytes)
      if (tenant.readingBytes > 0 && tenant.readingBytes + bytes > maxReadingBytes) return false
      const more = Math.max(0, (expected ?? 0) - reserved)
      if (tryReserve(more)) reserved += more
      // Without other bytes a tenant is served, so that a wrong estimate is corrected.
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
        // The rest of a large page is not read for a client that has left.
        if (hasLeft) return reading === 0
        const more = Math.max(0, ofRows + bytes - reserved)
        if (more > 0 && !tryReserve(more)) return false
        ofRows += bytes
        rowCount += 1
        reserved += more
        return true
      },
      acquireRead: async (expectedBytes) => {
        if (hasLeft) throw refuse(tooManyBytes)
        const isNext = tenant.queue.length === 0 || isSmall(expectedBytes())
        if (isNext && tryStartRead(expectedBytes())) return
        waiting = tenant.queue.append(() => tryStartRead(expectedBytes()))
        queues.add(tenant.queue)
        const hasBegun = await waiting.hasBegun
        waiting = undefined
        if (!hasBegun) throw refuse(tooManyBytes)
      },
      releaseRead: () => {
        const crowd = Math.min(tenant.queue.length, maxPauses)
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
        releaseBytes(reserved)
        ;[ofRows, rowCount, reserved] = [0, 0, 0]
        serveWaiting()
      },
      reserveBytes: (bytes) => {
        if (hasLeft || !tryReserve(bytes)) throw refuse(tooManyBytes)
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
        releaseBytes(reserved + fixed)
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

function createActivity() {
  let latest = { tenantId: '', at: -Infinity }
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

function isSmall(expectedBytes: number | undefined): boolean {
  return expectedBytes !== undefined && expectedBytes <= freeBytes
}
