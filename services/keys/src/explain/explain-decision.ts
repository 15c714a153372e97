import { expandScopes } from '@postern/api-key'
import { type DecisionStep, type Explanation, type ProblemCode, decisionSteps, problemTypes } from '@postern/contracts'
import type { KeyRecord } from '@postern/contracts/internal'
import {
  type KeyRefusal,
  type Match,
  type RouteMatcher,
  createAddressMatcher,
  denialOf,
  refusalOfKey,
  targetRemedy,
} from '@postern/service-kit/access'
import { canonicalTarget } from '@postern/signed-context'

export interface RequestToExplain {
  readonly method: string
  readonly path: string
  /** Undefined if neither the caller nor a use of the key names one. */
  readonly address: string | undefined
  /** Whether `address` comes from the last use of the key. */
  readonly isLast: boolean
}

/** What the current settings decide about a request. */
export type Decision = Omit<Explanation, 'address' | 'refusal' | 'now'>

interface Verdict {
  readonly step: DecisionStep
  readonly code: ProblemCode
  readonly detail: string
}

/** Decides with the functions of the gateway, in its order (services/gateway/src/pipeline.ts). `now`: database clock. */
export function explainDecision(
  asked: RequestToExplain,
  record: KeyRecord,
  now: number,
  match: RouteMatcher,
): Decision {
  const { method, path } = asked
  const target = canonicalTarget(path)
  if (!target.ok) {
    const code = target.reason === 'too_long' ? 'uri_too_long' : 'non_canonical_path'
    return refuse({ step: 'target', code, detail: targetRemedy(target.reason) }, {}, null)
  }
  const found = match(method, target.path)
  if (found.kind === 'route' && found.route.access.kind === 'public') return publicRoute(found.route.id)
  return decideRoute(asked, found, record, now)
}

/** As `explainDecision`, for a path that has been matched. */
export function decideRoute(
  asked: Omit<RequestToExplain, 'path'>,
  found: Match,
  record: KeyRecord,
  now: number,
): Decision {
  const { method, address } = asked
  const route = found.kind === 'route' ? found.route : undefined
  const limits = record.allowedAddresses
  const checks: Checks = {
    target: passed('The path is in its canonical form.'),
    state: passed('The key is not revoked.'),
    expiry: passed(`The key is valid until ${formatTime(record.expiresAt)}.`),
    tenant: passed('The tenant is active.'),
    address: checkAddress(asked, limits),
  }
  const isAllowed = limits.length === 0 || address === undefined ? undefined : createAddressMatcher(limits)
  const keyRefusal = refusalOfKey(
    record.revoked,
    now >= record.expiresAt,
    record.tenantStatus === 'active',
    isAllowed,
    address ?? '',
  )
  const routeId = route?.id ?? null
  if (keyRefusal !== undefined) return refuse(verdictOf(keyRefusal, record, nameOf(asked)), checks, routeId)

  if (found.kind === 'none') {
    const detail =
      'There is no such route. Compare the path with the reference, including upper and lower case and a trailing slash.'
    return refuse({ step: 'route', code: 'not_found', detail }, checks, null)
  }
  if (found.kind === 'method') {
    const detail = `This path supports ${found.allowed.join(', ')}, but not ${method}.`
    return refuse({ step: 'route', code: 'method_not_allowed', detail }, checks, null)
  }
  checks.route = passed(`The operation is ${found.route.id}: ${found.route.summary}.`)
  const caller = { kind: 'api_key', granted: record.scopes, scopes: expandScopes(record.scopes), roles: [] } as const
  const denial = denialOf(found.route, caller)
  if (denial !== undefined) {
    return refuse({ step: 'scope', code: denial.code, detail: denial.detail }, checks, routeId)
  }
  checks.scope = passed(`The scopes of the key allow it: ${record.scopes.join(', ')}.`)
  const limit = `The key may send ${record.keyLimit} requests a minute, and its tenant ${record.tenantLimit}. Only gateways count them.`
  const steps = stepsOf(checks, { step: 'limit', outcome: 'unknown', detail: limit })
  return { decision: 'accepted', status: null, code: null, route: routeId, steps }
}

function publicRoute(route: string): Decision {
  const checks = { target: passed('The path is in its canonical form.') }
  const detail = `The operation ${route} needs no key and ignores one.`
  return {
    decision: 'accepted',
    status: null,
    code: null,
    route,
    steps: stepsOf(checks, { step: 'route', ...passed(detail) }),
  }
}

function checkAddress(asked: Pick<RequestToExplain, 'address' | 'isLast'>, limits: readonly string[]): Check {
  if (limits.length === 0) return passed('The key accepts all addresses.')
  if (asked.address === undefined) {
    return {
      outcome: 'unknown',
      detail: `The key accepts only ${limits.join(', ')}. Send \`address\` to check one.`,
    }
  }
  return passed(`${nameOf(asked)} is among the allowed addresses.`)
}

function nameOf({ address = '', isLast }: Pick<RequestToExplain, 'address' | 'isLast'>): string {
  return isLast ? `${address}, which used the key last,` : address
}

const stepOf: Readonly<Record<KeyRefusal, DecisionStep>> = {
  key_revoked: 'state',
  key_expired: 'expiry',
  tenant_suspended: 'tenant',
  address_not_allowed: 'address',
}

function verdictOf(code: KeyRefusal, record: KeyRecord, address: string): Verdict {
  const step = stepOf[code]
  switch (code) {
    case 'key_revoked':
      return { step, code, detail: 'The key is revoked and will not work again. Create a new key.' }
    case 'key_expired':
      return { step, code, detail: `The key expired at ${formatTime(record.expiresAt)}. Create a new key.` }
    case 'tenant_suspended':
      return { step, code, detail: 'The operator of the platform has suspended the tenant.' }
    case 'address_not_allowed': {
      const allowed = record.allowedAddresses.join(', ')
      return { step, code, detail: `${address} is not allowed. The key accepts only ${allowed}.` }
    }
    default:
      return code satisfies never
  }
}

function refuse({ step, code, detail }: Verdict, checks: Checks, route: string | null): Decision {
  const { status } = problemTypes[code]
  return { decision: 'refused', status, code, route, steps: stepsOf(checks, { step, outcome: 'refused', detail }) }
}

type Check = Omit<Explanation['steps'][number], 'step'>
type Checks = Partial<Record<DecisionStep, Check>>

export function passed(detail: string): Check {
  return { outcome: 'passed', detail }
}

/** Returns every step. Those without a check, and those after the last, were skipped. */
export function stepsOf(checks: Checks, last: Explanation['steps'][number]): Explanation['steps'] {
  const end = decisionSteps.indexOf(last.step)
  return decisionSteps.map((step, place) => {
    if (place === end) return last
    const check = place < end ? checks[step] : undefined
    return { step, ...(check ?? { outcome: 'skipped', detail: 'Not checked.' }) }
  })
}

function formatTime(epochMs: number): string {
  return new Date(epochMs).toISOString()
}
