import {
  type KeyRecord,
  type LeaseAnswer,
  type LeaseRequest,
  type UsageReport,
  internalPaths,
  leaseAnswerSchema,
  lookupsAnswerSchema,
  tenantLookupAnswerSchema,
} from '@postern/contracts/internal'
import { type ServiceClient, askAgainOnce, createServiceClient } from '@postern/service-client'
import { type KeyRing, nilTenantId, noAssertion } from '@postern/signed-context'
import type { z } from 'zod'
import type { Clocks } from './clocks.ts'
import { createBatcher } from './batch-requests.ts'

/** When the question was sent for which this is the answer, on the monotonic clock: it may have waited before. */
interface Sent {
  readonly sentMonotonic: number
}
export type LookupAnswer = { readonly record: KeyRecord | null; readonly now: number } & Sent
export type TenantLookupAnswer = z.infer<typeof tenantLookupAnswerSchema> & Sent

/** The internal API of the keys service, each call signed. Every method rejects when no good answer comes in time. */
export interface KeysClient {
  renewLease(request: LeaseRequest): Promise<LeaseAnswer>
  releaseLease(gateway: string): Promise<void>
  /**
   * Keys that are needed at the same time share one call. Rejects at once if too many wait. Suspect keys have a queue of their own, with
   * one call at a time.
   */
  findKey(hash: string, isSuspect?: boolean): Promise<LookupAnswer>
  /** Rejects at once if too many wait. */
  findTenant(tenantId: string): Promise<TenantLookupAnswer>
  /** Rejects with ContentRefused where a line of it can never be recorded. */
  reportUsage(report: UsageReport): Promise<void>
  close(): Promise<void>
}

/** Well under the length of a lease: a renewal that takes longer is worth less than a new one. */
const renewalTimeoutMs = 1000
/**
 * A request waits this long for what its key is. Longer than a renewal: what takes a busy keys service more than a second is
 * an answer all the same, and who gave up on it would ask again and make it busier.
 */
export const lookupTimeoutMs = 2500
/**
 * No client waits for a report of usage. One that is given up while it is recorded is sent again, and counts twice; the
 * last one must fit into the time in which a process ends.
 */
const reportTimeoutMs = 5000
const connectTimeoutMs = 1000
const maxAnswerBytes = 8 * 1024 * 1024
/**
 * Keys of one call, and calls that are under way at once; what is asked for meanwhile goes with the next. Few enough that a
 * call that comes too late takes few requests with it.
 */
const maxKeysPerCall = 32
const maxConcurrentLookups = 8
/** Tenants that are asked for at once, each in a call of its own: however many are asked for, keys have connections left. */
const maxConcurrentTenants = 8
/** More than are answered in time are of no use, and each holds a client's request. */
const maxWaiting = 4096
/** Keys from addresses of which many were refused. */
const maxWaitingSuspects = 512

/** The keys service has read a call and takes no such content. Asked again it would say the same. */
export class ContentRefused extends Error {}

interface Timed extends Sent {
  readonly json: unknown
}

/** Opens the client; connections are made when first needed. */
export function openKeysClient(options: {
  url: string
  ring: KeyRing
  gateway: string
  clocks: Pick<Clocks, 'monotonic'>
}): KeysClient {
  const { url, ring, gateway, clocks } = options
  const open = (maxConnections: number, timeoutMs: number): ServiceClient =>
    createServiceClient({
      service: 'The keys service',
      baseUrl: url,
      keyName: 'internal',
      ring,
      timeoutMs,
      maxConnections,
      connectTimeoutMs,
      maxAnswerBytes,
    })
  const lookups = open(32, lookupTimeoutMs)
  // Renewals never queue behind look-ups: a flood of unknown keys would cost the lease, and with it every known key.
  const leases = open(2, renewalTimeoutMs)
  const reports = open(2, reportTimeoutMs)
  const caller = {
    tenantId: nilTenantId,
    kind: 'service',
    id: gateway,
    label: 'gateway',
    scopes: [],
    roles: [],
  } as const
  const waiting = { maxWaiting, maxWaitMs: lookupTimeoutMs, now: clocks.monotonic }
  let count = 0

  async function call(client: ServiceClient, target: string, body: unknown, timeoutMs?: number): Promise<unknown> {
    count += 1
    const requestId = `gateway-${gateway.slice(0, 8)}-${count}`
    const limit = timeoutMs === undefined ? {} : { timeoutMs }
    const { status, json } = await client.send({ target, caller, assertion: noAssertion, requestId, body, ...limit })
    if (status === 422) throw new ContentRefused('the keys service takes no such content')
    if (status < 200 || status > 299) throw new Error(`the keys service answered ${status}`)
    return json
  }

  async function lookUp(target: string, body: unknown): Promise<Timed> {
    const until = performance.now() + lookupTimeoutMs
    return await askAgainOnce(async () => {
      const sentMonotonic = clocks.monotonic()
      const json = await call(lookups, target, body, Math.max(1, Math.ceil(until - performance.now())))
      return { json, sentMonotonic }
    })
  }

  async function findTenant(tenantId: string): Promise<TenantLookupAnswer> {
    const { json, sentMonotonic } = await lookUp(internalPaths.lookupTenant, { tenantId })
    return { ...tenantLookupAnswerSchema.parse(json), sentMonotonic }
  }

  async function findKeys(hashes: readonly string[]): Promise<LookupAnswer[]> {
    const { json, sentMonotonic } = await lookUp(internalPaths.lookupKeys, { hashes })
    const { records, now } = lookupsAnswerSchema.parse(json)
    if (records.length !== hashes.length || records.some((record, at) => (record?.hash ?? hashes[at]) !== hashes[at])) {
      throw new Error('the keys service answered for other keys than it was asked for')
    }
    return records.map((record) => ({ record, now, sentMonotonic }))
  }

  async function renewLease(request: LeaseRequest): Promise<LeaseAnswer> {
    return leaseAnswerSchema.parse(await call(leases, internalPaths.leases, request))
  }

  const findUsual = createBatcher(findKeys, {
    ...waiting,
    maxBatch: maxKeysPerCall,
    maxConcurrent: maxConcurrentLookups,
  })
  const findSuspect = createBatcher(findKeys, {
    ...waiting,
    maxBatch: maxKeysPerCall,
    maxConcurrent: 1,
    maxWaiting: maxWaitingSuspects,
  })

  return {
    renewLease,
    releaseLease: async (id) => {
      await call(leases, internalPaths.releaseLease, { gateway: id })
    },
    findKey: async (hash, isSuspect = false) => await (isSuspect ? findSuspect(hash) : findUsual(hash)),
    findTenant: createBatcher(async (ids) => await Promise.all(ids.map(findTenant)), {
      ...waiting,
      maxBatch: 1,
      maxConcurrent: maxConcurrentTenants,
    }),
    reportUsage: async (report) => {
      await call(reports, internalPaths.usage, report)
    },
    close: async () => {
      await Promise.all([lookups, leases, reports].map(async (client) => await client.destroy()))
    },
  }
}
