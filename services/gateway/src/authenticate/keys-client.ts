import {
  type LeaseAnswer,
  type LeaseRequest,
  type UsageReport,
  internalPaths,
  leaseAnswerSchema,
  lookupAnswerSchema,
  lookupsAnswerSchema,
  tenantLookupAnswerSchema,
} from '@postern/contracts/internal'
import {
  assertionHeader,
  contextHeader,
  requestIdHeader,
  signatureHeader,
  signatureInputHeader,
} from '@postern/contracts'
import { askAgainOnce, idleConnections } from '@postern/service-kit'
import { type KeyRing, createSigner, nilTenantId, noAssertion, serializeContext } from '@postern/signed-context'
import { Pool } from 'undici'
import type { z } from 'zod'
import { together } from './together.ts'

export type LookupAnswer = z.infer<typeof lookupAnswerSchema>
export type TenantLookupAnswer = z.infer<typeof tenantLookupAnswerSchema>

/** The internal API of the keys service, each call signed. Every method rejects when no good answer comes in time. */
export interface KeysClient {
  renewLease(request: LeaseRequest): Promise<LeaseAnswer>
  releaseLease(gateway: string): Promise<void>
  /** Keys that are asked for at the same time are looked up together. */
  findKey(hash: string): Promise<LookupAnswer>
  findTenant(tenantId: string): Promise<TenantLookupAnswer>
  reportUsage(report: UsageReport): Promise<void>
  close(): Promise<void>
}

/** Well under the length of a lease: a renewal that takes longer is worth less than a new one. */
const renewalTimeoutMs = 1000
/**
 * A request waits this long for what its key is. Longer than a renewal: what takes a busy keys service more than a second is
 * an answer all the same, and who gave up on it would ask again and make it busier.
 */
const lookupTimeoutMs = 2500
const connectTimeoutMs = 1000
const maxAnswerBytes = 8 * 1024 * 1024
/**
 * Keys of one call, and calls that are under way at once; what is asked for meanwhile goes with the next. Few enough that a
 * call that comes too late takes few requests with it.
 */
const keysTogether = 32
const lookupsAtOnce = 8

class NotServed extends Error {}

/** What one call may take, and over which connections it goes. */
interface Way {
  readonly pool: Pool
  readonly timeoutMs: number
  /** Whether to ask once more when the connection was lost or refused: for what changes nothing. */
  readonly again: boolean
}

/** Opens the client; connections are made when first needed. */
export function openKeysClient(options: { url: string; ring: KeyRing; gateway: string }): KeysClient {
  const { url, ring, gateway } = options
  const { pathname } = new URL(url)
  const prefix = pathname === '/' ? '' : pathname
  const open = (connections: number, timeoutMs: number): Pool =>
    new Pool(new URL(url).origin, {
      connections,
      pipelining: 1,
      connect: { timeout: connectTimeoutMs },
      ...idleConnections,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    })
  const lookups: Way = { pool: open(32, lookupTimeoutMs), timeoutMs: lookupTimeoutMs, again: true }
  // Renewals never queue behind look-ups: a flood of unknown keys would cost the lease, and with it every known key.
  const leases: Way = { pool: open(2, renewalTimeoutMs), timeoutMs: renewalTimeoutMs, again: false }
  const reports: Way = { ...lookups, again: false }
  const signer = createSigner(ring, 'internal')
  const context = serializeContext({
    tenantId: nilTenantId,
    kind: 'service',
    id: gateway,
    label: 'gateway',
    scopes: [],
    roles: [],
  })
  let count = 0

  async function call(path: string, input: unknown, { pool, timeoutMs, again }: Way): Promise<unknown> {
    const body = Buffer.from(JSON.stringify(input))
    const signal = AbortSignal.timeout(timeoutMs)
    const ask = async (): Promise<unknown> => await callOnce(path, body, pool, signal)
    return again ? await askAgainOnce(ask) : await ask()
  }

  async function callOnce(path: string, body: Buffer, pool: Pool, signal: AbortSignal): Promise<unknown> {
    const target = prefix + path
    count += 1
    const requestId = `gateway-${gateway.slice(0, 8)}-${count}`
    const contentType = 'application/json'
    const contentLength = String(body.length)
    const { signatureInput, signature } = signer.sign(
      { method: 'POST', target, context, assertion: noAssertion, requestId, contentType, contentLength },
      Date.now(),
    )
    const answer = await pool.request({
      method: 'POST',
      path: target,
      headers: {
        'content-type': contentType,
        'content-length': contentLength,
        [contextHeader]: context,
        [assertionHeader]: noAssertion,
        [requestIdHeader]: requestId,
        [signatureInputHeader]: signatureInput,
        [signatureHeader]: signature,
      },
      body,
      signal,
    })
    if (answer.statusCode < 200 || answer.statusCode > 299) {
      await answer.body.dump({ limit: maxAnswerBytes })
      if (answer.statusCode === 404) throw new NotServed('the keys service does not know the call')
      throw new Error(`the keys service answered ${answer.statusCode}`)
    }
    const text = await answer.body.text()
    return text === '' ? undefined : JSON.parse(text)
  }

  async function findOne(hash: string): Promise<LookupAnswer> {
    return lookupAnswerSchema.parse(await call(internalPaths.lookupKey, { hash }, lookups))
  }

  async function findSome(hashes: readonly string[]): Promise<LookupAnswer[]> {
    const { records, now } = lookupsAnswerSchema.parse(await call(internalPaths.lookupKeys, { hashes }, lookups))
    if (records.length !== hashes.length || records.some((record, at) => (record?.hash ?? hashes[at]) !== hashes[at])) {
      throw new Error('the keys service answered for other keys than it was asked for')
    }
    return records.map((record) => ({ record, now }))
  }

  /** A keys service of the release before is asked for one key at a time. */
  async function findEach(hashes: readonly string[]): Promise<readonly LookupAnswer[]> {
    try {
      return await findSome(hashes)
    } catch (error) {
      if (!(error instanceof NotServed)) throw error
      return await Promise.all(hashes.map(findOne))
    }
  }

  return {
    renewLease: async (request) => leaseAnswerSchema.parse(await call(internalPaths.leases, request, leases)),
    releaseLease: async (id) => {
      await call(internalPaths.releaseLease, { gateway: id }, leases)
    },
    findKey: together(findEach, { most: keysTogether, atOnce: lookupsAtOnce }),
    findTenant: async (tenantId) =>
      tenantLookupAnswerSchema.parse(await call(internalPaths.lookupTenant, { tenantId }, lookups)),
    reportUsage: async (report) => {
      await call(internalPaths.usage, report, reports)
    },
    close: async () => {
      await Promise.all([lookups.pool.destroy(), leases.pool.destroy()])
    },
  }
}
