import type { Socket } from 'node:net'
import type { ProblemCode } from '@postern/contracts'
import type { Clocks, DatabaseClock } from './authenticate/clocks.ts'
import { decideKey } from './authenticate/decide.ts'
import type { RevocationWatermarks } from './authenticate/revocation-watermarks.ts'
import type { KeyEntry, KeyLookup } from './authenticate/key-lookup.ts'
import type { Lease } from './authenticate/lease.ts'
import { personInactive, personUnknown, refusalAnswer, tokenExpired } from './authenticate/refusal-answer.ts'
import type { PersonLookup } from './authenticate/person-lookup.ts'
import type { TenantLookup } from './authenticate/tenant-lookup.ts'
import { denialOf } from '@postern/service-kit/access'
import type { Exchange, ProblemAnswer } from './exchange.ts'

export interface OpenRequest {
  readonly exchange: Exchange
  /** When the caller was last known to be allowed (monotonic). */
  checkedAt: number
  /** Round of lookups of the last successful check. */
  checkedRound: number
  /** -1 if it is not open. */
  openIndex: number
  end(code: ProblemCode, answer: ProblemAnswer): void
  abandon(): void
}

/**
 * Ends requests whose caller loses its access: the key or token expires, the key is revoked, a scope or address is
 * removed, the tenant is suspended, or a directory deactivates the person.
 */
export interface OpenRequests {
  /** HOT PATH. */
  add(request: OpenRequest): void
  /** HOT PATH. */
  remove(request: OpenRequest): void
  findTenants(): ReadonlyMap<Socket, string>
  checkSoon(): void
  /** Call it every `checkOpenRequestsEveryMs`. */
  check(): void
  requireLookUps(): void
}

export const checkOpenRequestsEveryMs = 250
/** Without a lease, callers are looked up again when their last check is this old. */
const lookUpAfterMs = 500
/**
 * Unconfirmed requests end after this time. With `checkOpenRequestsEveryMs` it stays below two seconds, the longest life
 * of a lease. Completely received changes may finish.
 */
const maxUnconfirmedMs = 1500
/** A later check shows that the process was frozen. */
const lateCheckMs = 2 * checkOpenRequestsEveryMs

export interface OpenRequestsParts {
  readonly lease: Pick<Lease, 'isHeld'>
  readonly watermarks: RevocationWatermarks
  readonly clocks: Clocks
  readonly databaseClock: DatabaseClock
  readonly keys: Pick<KeyLookup, 'obtain'>
  readonly tenants: Pick<TenantLookup, 'obtain'>
  readonly people: Pick<PersonLookup, 'obtain' | 'isCurrent'>
  readonly onEnded: (exchange: Exchange, code: ProblemCode) => void
  readonly onFailure: (error: unknown) => void
}

type Verdict = 'allowed' | 'unknown' | { readonly code: ProblemCode; readonly answer: ProblemAnswer }

export function createOpenRequests(parts: OpenRequestsParts): OpenRequests {
  const { lease, watermarks, clocks, databaseClock, keys, tenants, people, onEnded, onFailure } = parts
  // A Set is measurably slower.
  const open: OpenRequest[] = []
  const lookingUp = new Set<string>()
  let isDue = false
  let round = 0
  let lastCheckAt = clocks.monotonic()
  /** After a freeze, unconfirmed requests continue until this time, because confirmations may wait to be read. */
  let readingUntil = -Infinity

  function add(request: OpenRequest): void {
    request.checkedAt = clocks.monotonic()
    request.checkedRound = round
    request.openIndex = open.push(request) - 1
  }

  function remove(request: OpenRequest): void {
    const { openIndex } = request
    if (openIndex < 0) return
    const last = open.pop()
    if (last !== undefined && last !== request) {
      open[openIndex] = last
      last.openIndex = openIndex
    }
    request.openIndex = -1
  }

  function end(request: OpenRequest, code: ProblemCode, answer: ProblemAnswer): void {
    if (request.openIndex < 0) return
    const mayCommit = isWholeChange(request.exchange)
    if (mayCommit && clocks.monotonic() - request.checkedAt <= maxUnconfirmedMs) return
    remove(request)
    if (mayCommit) {
      request.end('bad_gateway', outcomeUnknown)
      onEnded(request.exchange, 'bad_gateway')
      return
    }
    request.end(code, answer)
    onEnded(request.exchange, code)
  }

  function judgeKey(exchange: Exchange, entry: KeyEntry): Verdict {
    const decision = decideKey(entry, watermarks, databaseClock, exchange.address)
    if (decision === 'outdated') return 'unknown'
    if (decision !== 'accepted') return { code: decision, answer: refusalAnswer(exchange, decision) }
    const denial = exchange.route === undefined ? undefined : denialOf(exchange.route, entry.principal)
    if (denial === undefined) return 'allowed'
    const { code, ...answer } = denial
    return { code, answer }
  }

  /** Without a lease only a rejection counts. */
  function judge({ exchange, checkedRound }: OpenRequest): Verdict {
    const { key, tenant, tokenEndsAt, person } = exchange
    if (key !== undefined) {
      const verdict = judgeKey(exchange, key)
      return verdict === 'allowed' && checkedRound !== round ? 'unknown' : verdict
    }
    if (tenant === undefined) return 'allowed'
    if (tokenEndsAt !== undefined && clocks.wall() >= tokenEndsAt)
      return { code: 'invalid_token', answer: tokenExpired }
    if (checkedRound !== round || watermarks.isTenantOutdated(tenant.tenantId, tenant.tenantVersion)) return 'unknown'
    return person === undefined || people.isCurrent(person.record) ? 'allowed' : 'unknown'
  }

  function apply(request: OpenRequest, verdict: Verdict, at: number, inRound: number): void {
    if (verdict === 'unknown') return
    if (verdict === 'allowed') {
      request.checkedAt = Math.max(request.checkedAt, at)
      request.checkedRound = Math.max(request.checkedRound, inRound)
      return
    }
    end(request, verdict.code, verdict.answer)
  }

  async function lookUpKey(hash: string, requests: readonly OpenRequest[]): Promise<void> {
    const [at, inRound] = [clocks.monotonic(), round]
    const found = await keys.obtain(hash)
    if (found.kind === 'unavailable') return
    for (const request of requests) {
      const { exchange } = request
      if (found.kind === 'unknown') {
        end(request, 'key_revoked', refusalAnswer(exchange, 'key_revoked'))
        continue
      }
      exchange.key = found.entry
      apply(request, judgeKey(exchange, found.entry), at, inRound)
    }
  }

  async function lookUpTenant(tenantId: string, requests: readonly OpenRequest[]): Promise<void> {
    const [at, inRound] = [clocks.monotonic(), round]
    const found = await tenants.obtain(tenantId)
    if (found.kind === 'unavailable') return
    for (const request of requests) {
      const { exchange } = request
      if (found.kind === 'unknown' || found.tenant.tenantStatus !== 'active') {
        end(request, 'tenant_suspended', refusalAnswer(exchange, 'tenant_suspended'))
        continue
      }
      exchange.tenant = found.tenant
      await applyPerson(request, at, inRound)
    }
  }

  async function applyPerson(request: OpenRequest, at: number, inRound: number): Promise<void> {
    const { person } = request.exchange
    if (person !== undefined) {
      const found = await people.obtain(person.query)
      if (found.kind === 'unavailable') return
      const { status } = found.person
      if (status === 'inactive') {
        end(request, 'person_inactive', personInactive)
        return
      }
      if (status === 'unknown' && person.isRequired) {
        end(request, 'person_unknown', personUnknown)
        return
      }
      request.exchange.person = { ...person, record: found.person }
    }
    apply(request, 'allowed', at, inRound)
  }

  function lookUp(name: string, work: () => Promise<void>): void {
    if (lookingUp.has(name)) return
    lookingUp.add(name)
    work()
      .catch(onFailure)
      .finally(() => lookingUp.delete(name))
  }

  function check(): void {
    isDue = false
    const now = clocks.monotonic()
    if (now - lastCheckAt > lateCheckMs) readingUntil = now + checkOpenRequestsEveryMs
    lastCheckAt = now
    const isHeld = lease.isHeld()
    const byKey = new Map<string, OpenRequest[]>()
    const byTenant = new Map<string, OpenRequest[]>()
    // A copy, because requests are removed meanwhile.
    for (const request of open.slice()) {
      const { exchange } = request
      // An answer that waits behind another one gets no `close`.
      if (exchange.request.socket.destroyed) {
        remove(request)
        request.abandon()
        continue
      }
      const verdict = judge(request)
      if (verdict !== 'unknown' && (verdict !== 'allowed' || isHeld)) {
        apply(request, verdict, now, round)
        continue
      }
      const age = now - request.checkedAt
      const mayContinue = !exchange.response.headersSent && (now < readingUntil || isCommittedAnyway(exchange))
      if (age > maxUnconfirmedMs && !mayContinue) {
        end(request, 'auth_unavailable', unconfirmed)
      } else if (verdict === 'unknown' || age > lookUpAfterMs) {
        if (exchange.key !== undefined) append(byKey, exchange.key.record.hash, request)
        else if (exchange.tenant !== undefined) append(byTenant, exchange.tenant.tenantId, request)
      }
    }
    for (const [hash, requests] of byKey) lookUp(hash, async () => await lookUpKey(hash, requests))
    for (const [tenantId, requests] of byTenant) lookUp(tenantId, async () => await lookUpTenant(tenantId, requests))
  }

  function checkSoon(): void {
    if (isDue || open.length === 0) return
    isDue = true
    setImmediate(check)
  }

  return {
    add,
    remove,
    findTenants: () =>
      new Map(open.map(({ exchange }) => [exchange.request.socket, exchange.principal?.tenantId ?? ''] as const)),
    checkSoon,
    check,
    requireLookUps: () => {
      round += 1
      checkSoon()
    },
  }
}

/** For requests that cannot have changed anything. */
const unconfirmed: ProblemAnswer = {
  detail: 'The credentials could not be confirmed any more. Try again in a moment.',
  retryAfterSeconds: 1,
}

const outcomeUnknown: ProblemAnswer = {
  detail:
    'The credentials could not be confirmed any more. The operation may or may not have happened: check before you repeat it.',
}

function isWholeChange({ request, method }: Exchange): boolean {
  return request.complete && method !== 'GET' && method !== 'HEAD'
}

/** A service commits a complete change even if the gateway ends the request, except for evidence. */
function isCommittedAnyway(exchange: Exchange): boolean {
  return isWholeChange(exchange) && exchange.route?.upstream !== 'evidence'
}

function append(lists: Map<string, OpenRequest[]>, name: string, request: OpenRequest): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [request])
  else list.push(request)
}
