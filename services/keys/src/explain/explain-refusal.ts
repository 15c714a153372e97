import {
  type DecisionStep,
  type Explanation,
  type RefusedRequest,
  decisionSteps,
  problemTypes,
  routeTable,
} from '@postern/contracts'
import type { KeyRecord } from '@postern/contracts/internal'
import { decideRoute, passed, stepsOf } from './explain-decision.ts'

const stepOf: Readonly<Record<string, DecisionStep>> = {
  key_revoked: 'state',
  key_expired: 'expiry',
  tenant_suspended: 'tenant',
  address_not_allowed: 'address',
  not_found: 'route',
  method_not_allowed: 'route',
  insufficient_scope: 'scope',
  role_required: 'scope',
  too_many_requests: 'limit',
}

/** Explains a past refusal, and what the current settings would decide. `now`: database clock. */
export function explainRefusal(refusal: RefusedRequest, record: KeyRecord, now: number): Explanation {
  const { method, route: routeId, address, code } = refusal
  const route = routeTable.find(({ id }) => id === routeId)
  const present =
    route === undefined
      ? undefined
      : decideRoute({ method, address, isLast: false }, { kind: 'route', route, params: {} }, record, now)
  const step = stepOf[code] ?? 'limit'
  const earlier = decisionSteps.slice(0, decisionSteps.indexOf(step))
  const remedy = present?.code === code ? present.steps.find(({ outcome }) => outcome === 'refused')?.detail : undefined
  const detail = remedy ?? describePast(refusal, record)
  return {
    decision: 'refused',
    status: Object.entries(problemTypes).find(([known]) => known === code)?.[1].status ?? null,
    code,
    route: routeId,
    address,
    steps: stepsOf(Object.fromEntries(earlier.map((each) => [each, passed('Passed at that time.')])), {
      step,
      outcome: 'refused',
      detail,
    }),
    refusal,
    now: present === undefined ? null : { decision: present.decision, code: present.code },
  }
}

function describePast({ code, method, address }: RefusedRequest, { keyLimit, tenantLimit }: KeyRecord): string {
  switch (code) {
    case 'key_expired':
      return 'The key had expired.'
    case 'tenant_suspended':
      return 'The operator of the platform had suspended the tenant.'
    case 'address_not_allowed':
      return `${address} was not among the allowed addresses.`
    case 'not_found':
      return 'There is no such path. Postern does not store it, because it may contain a secret. Look in the log of your program.'
    case 'method_not_allowed':
      return `The path does not support ${method}.`
    case 'insufficient_scope':
      return 'The key lacked the scope of the operation.'
    case 'too_many_requests':
      return `The key or its tenant had used up its requests of that minute. Now the key may send ${keyLimit} a minute, and its tenant ${tenantLimit}.`
    default:
      return `The request was refused with ${code}.`
  }
}
