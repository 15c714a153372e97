import { uuidSchema } from '@postern/contracts'
import {
  type KeyRecord,
  type LeaseAnswer,
  type LeaseRequest,
  type PersonLookup,
  type UsageReport,
  internalPaths,
  leaseAnswerSchema,
  lookupsAnswerSchema,
  personLookupAnswerSchema,
  tenantLookupAnswerSchema,
} from '@postern/contracts/internal'
import { type ServiceClient, retryOnce, createServiceClient } from '@postern/service-client'
import { type KeyRing, nilTenantId, noAssertion } from '@postern/signed-context'
import type { z } from 'zod'
import type { Clocks } from './clocks.ts'
import { createBatcher } from './batch-requests.ts'

/** When the request was sent (monotonic); it may have waited before. */
interface SentTime {
  readonly sentMonotonic: number
}
export type LookupAnswer = { readonly record: KeyRecord | null; readonly now: number } & SentTime
export type TenantLookupAnswer = z.infer<typeof tenantLookupAnswerSchema> & SentTime
export type PersonLookupAnswer = z.infer<typeof personLookupAnswerSchema> & SentTime

/** Every method rejects without a valid answer in time. */
export interface KeysClient {
  renewLease(request: LeaseRequest): Promise<LeaseAnswer>
  releaseLease(gateway: string): Promise<void>
  /** Rejects at once if too many wait. Suspect keys have their own queue with one call at a time. */
  findKey(hash: string, isSuspect?: boolean): Promise<LookupAnswer>
  /** By id or slug. */
  findTenant(reference: string): Promise<TenantLookupAnswer>
  findPerson(query: PersonLookup): Promise<PersonLookupAnswer>
  /** Rejects with ContentRefusedError if a line can never be recorded. */
  reportUsage(report: UsageReport): Promise<void>
  close(): Promise<void>
}

/** Shorter than a lease, because a new renewal is better than a late one. */
const renewalTimeoutMs = 1000
/** Longer than a renewal, because repeated look-ups would load a busy keys service more. */
export const lookupTimeoutMs = 2500
/** A report that is recorded but times out counts twice. The last one must fit into the shutdown. */
const reportTimeoutMs = 5000
const connectTimeoutMs = 1000
const maxAnswerBytes = 8 * 1024 * 1024
/** Small, so that a late call affects few requests. */
const maxKeysPerCall = 32
const maxConcurrentLookups = 8
/** These limits leave connections for keys. */
const maxConcurrentTenants = 8
const maxConcurrentPeople = 8
/** More could not be answered in time. */
const maxWaiting = 4096
/** Keys from addresses with many failures. */
const maxWaitingSuspects = 512

/** The keys service will never accept the content. */
export class ContentRefusedError extends Error {}

interface Timed extends SentTime {
  readonly json: unknown
}

/** Connects when needed. */
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
  // A flood of unknown keys must not cost the lease.
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
    if (status === 422) throw new ContentRefusedError('the keys service rejected the content')
    if (status < 200 || status > 299) throw new Error(`the keys service answered ${status}`)
    return json
  }

  async function lookUp(target: string, body: unknown): Promise<Timed> {
    const until = performance.now() + lookupTimeoutMs
    return await retryOnce(async () => {
      const sentMonotonic = clocks.monotonic()
      const json = await call(lookups, target, body, Math.max(1, Math.ceil(until - performance.now())))
      return { json, sentMonotonic }
    })
  }

  async function findTenant(reference: string): Promise<TenantLookupAnswer> {
    const body = uuidSchema.safeParse(reference).success ? { tenantId: reference } : { slug: reference }
    const { json, sentMonotonic } = await lookUp(internalPaths.lookupTenant, body)
    return { ...tenantLookupAnswerSchema.parse(json), sentMonotonic }
  }

  async function findPerson(query: string): Promise<PersonLookupAnswer> {
    const { json, sentMonotonic } = await lookUp(internalPaths.lookupPerson, JSON.parse(query))
    return { ...personLookupAnswerSchema.parse(json), sentMonotonic }
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

  const findPersonOf = createBatcher(async (queries) => await Promise.all(queries.map(findPerson)), {
    ...waiting,
    maxBatch: 1,
    maxConcurrent: maxConcurrentPeople,
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
    findPerson: async (query) => await findPersonOf(JSON.stringify(query)),
    reportUsage: async (report) => {
      await call(reports, internalPaths.usage, report)
    },
    close: async () => {
      await Promise.all([lookups, leases, reports].map(async (client) => await client.destroy()))
    },
  }
}
