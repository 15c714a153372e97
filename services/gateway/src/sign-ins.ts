import { type ProblemCode, signInHeader } from '@postern/contracts'
import type { UsageReport } from '@postern/contracts/internal'
import type { Exchange } from './exchange.ts'
import { type UsageSource, createUsageSource, storableText } from './usage-report.ts'

type SignIn = NonNullable<UsageReport['signIns']>[number]

export interface SignIns {
  /** Collects it if the console asked for a person who signs in. `code`: why the gateway refused it. */
  add(request: SignInRequest, code?: ProblemCode): void
  readonly source: UsageSource
}

export type SignInRequest = Pick<Exchange, 'request' | 'requestId' | 'route' | 'principal' | 'address'>

/** Further ones are not collected. */
const maxCollected = 100_000

/** `now` returns milliseconds since the epoch. */
export function createSignIns(now: () => number): SignIns {
  const signIns = new Map<string, SignIn>()

  function keep(signIn: SignIn): void {
    const { tenantId, id, reason, address } = signIn
    const line = JSON.stringify([tenantId, id, reason, address])
    if (!signIns.has(line) && signIns.size < maxCollected) signIns.set(line, signIn)
  }

  return {
    add: ({ request, requestId, route, principal, address }, code) => {
      if (route?.id !== 'gateway.whoami' || request.headers[signInHeader] === undefined) return
      if (principal?.kind !== 'user') return
      const reason = code === undefined ? reasonOf(principal.roles) : refusals[code]
      // Of a person with several tenants, the choice is the sign-in.
      if (reason === undefined || (principal.isUndecided && code === undefined)) return
      const id = storableText(principal.id)
      const signIn = { id, name: storableText(principal.label) || id, reason, address, at: now(), requestId }
      const tenantIds = principal.isUndecided ? (principal.tenants ?? []).map((each) => each.id) : [principal.tenantId]
      for (const tenantId of tenantIds) keep({ tenantId, ...signIn })
    },
    source: createUsageSource('signIns', signIns, {
      report: (some) => ({ uses: [], denials: [], signIns: some }),
      keep,
    }),
  }
}

const refusals: Partial<Record<ProblemCode, SignIn['reason']>> = {
  person_inactive: 'person_inactive',
  person_unknown: 'person_unknown',
  tenant_suspended: 'tenant_suspended',
}

function reasonOf(roles: readonly string[]): SignIn['reason'] {
  return roles.length === 0 ? 'no_role' : null
}
