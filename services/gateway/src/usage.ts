import type { ProblemCode } from '@postern/contracts'
import { type UsageReport, lateUsageMs } from '@postern/contracts/internal'
import type { Logger } from '@postern/service-kit'
import type { KeysClient } from './authenticate/keys-client.ts'
import { type UsageSource, createUsageSource, maxTextLength, sendLines, storableText } from './usage-report.ts'
import type { Principal } from './authenticate/principal.ts'
import { type RefusedRequest, createRefusalCounts } from './refusal-counts.ts'
import { type SignIns, createSignIns } from './sign-ins.ts'

export type Use = UsageReport['uses'][number] & { readonly routes: Record<string, number> }
type Denial = UsageReport['denials'][number]
type Person = NonNullable<UsageReport['people']>[number]

/** Failed reports are merged into the next one. A lost answer may count twice; a crash loses at most one interval. */
export interface Usage {
  /** HOT PATH. Without a route: the caller was valid but the request was rejected. */
  used(principal: Principal, address: string, route: string | undefined): void
  /** Refusals of people are not counted. */
  denied(principal: Principal, address: string, reason: Denial['reason']): void
  /** Counts a refusal of a key by reason, route and address. */
  refused(principal: Principal, request: RefusedRequest, code: ProblemCode): void
  readonly signIn: SignIns['add']
  /** Reports everything. Do not call it again before it has ended: lines that are being sent would not count as late. */
  flush(): Promise<void>
  /** Whether uses of keys could not be reported for `lateUsageMs`. */
  isLate(): boolean
}

/** Further keys and addresses are not counted. */
const maxCollected = 100_000

/** `now` returns milliseconds since the epoch. */
export function createUsage(options: {
  keys: Pick<KeysClient, 'reportUsage'>
  now: () => number
  logger: Logger
}): Usage {
  const { keys, now, logger } = options
  // Most keys have one address between two reports.
  let usual: Principal[] = []
  const others = new Map<string, Use>()
  const denials = new Map<string, Denial>()
  const people = new Map<string, Person>()
  const refusals = createRefusalCounts(now)
  const signIns = createSignIns(now)
  /** When the oldest use that is not reported happened, at the earliest. */
  let unreportedSince: number | undefined

  function count(use: Use, route: string | undefined): void {
    use.count += 1
    if (route !== undefined) use.routes[route] = (use.routes[route] ?? 0) + 1
    use.lastUsedAt = now()
  }

  function recordPerson({ kind, tenantId, id, label, roles, isUndecided, directory }: Principal): void {
    if (kind !== 'user' || isUndecided) return
    const known = people.get(`${tenantId} ${id}`)
    if (known === undefined && people.size >= maxCollected) return
    // Too long (OpenID Connect Core, section 2) or not storable.
    if (id.length > maxTextLength || !id.isWellFormed() || id.includes('\0')) return
    const name = storableText(label) || id
    const person = { tenantId, id, name, roles: [...roles], lastSeenAt: now() }
    people.set(`${tenantId} ${id}`, directory === undefined ? person : { ...person, directory })
  }

  function collectUsual(): void {
    for (const principal of usual) {
      const { use } = principal
      if (use !== undefined) merge(others, `${use.keyId} ${use.address}`, use)
      principal.use = undefined
    }
    usual = []
  }

  const sources: readonly UsageSource[] = [
    createUsageSource('uses', others, {
      report: (uses) => ({ uses, denials: [] }),
      keep: (use) => merge(others, `${use.keyId} ${use.address}`, use),
    }),
    createUsageSource('denials', denials, {
      report: (refused) => ({ uses: [], denials: refused }),
      keep: (denial) => merge(denials, `${denial.keyId} ${denial.address} ${denial.reason}`, denial),
    }),
    refusals.source,
    createUsageSource('people', people, {
      report: (seen) => ({ uses: [], denials: [], people: seen }),
      keep: (person) => {
        const id = `${person.tenantId} ${person.id}`
        // Newer data replaces it.
        if (!people.has(id)) people.set(id, person)
      },
    }),
    signIns.source,
  ]

  return {
    used: (principal, address, route) => {
      if (principal.kind !== 'api_key') {
        recordPerson(principal)
        return
      }
      const first = principal.use
      if (first?.address === address) {
        count(first, route)
        return
      }
      const id = `${principal.id} ${address}`
      const known = others.get(id)
      if (known !== undefined) {
        count(known, route)
        return
      }
      if (usual.length + others.size >= maxCollected) return
      unreportedSince ??= now()
      const use = {
        keyId: principal.id,
        tenantId: principal.tenantId,
        address,
        lastUsedAt: now(),
        count: 1,
        routes: route === undefined ? {} : { [route]: 1 },
      }
      if (first === undefined) {
        principal.use = use
        usual.push(principal)
      } else others.set(id, use)
    },
    denied: (principal, address, reason) => {
      if (principal.kind !== 'api_key') return
      const id = `${principal.id} ${address} ${reason}`
      const known = denials.get(id)
      if (known !== undefined) known.count += 1
      else if (denials.size < maxCollected) {
        denials.set(id, { keyId: principal.id, tenantId: principal.tenantId, address, reason, at: now(), count: 1 })
      }
    },
    refused: refusals.add,
    signIn: signIns.add,
    flush: async () => {
      collectUsual()
      const from = now()
      for (const source of sources) {
        if (source.size > 0 && !(await sendLines(source, { keys, logger }))) break
        // Uses come first. Those that were recorded meanwhile wait for the next report.
        if (source.kind === 'uses' && source.size === 0) unreportedSince = usual.length > 0 ? from : undefined
      }
      refusals.release()
    },
    isLate: () => unreportedSince !== undefined && now() - unreportedSince >= lateUsageMs,
  }
}

function merge<T extends { count: number; lastUsedAt?: number; routes?: Record<string, number> }>(
  collected: Map<string, T>,
  id: string,
  value: T,
): void {
  const known = collected.get(id)
  if (known === undefined) {
    collected.set(id, value)
    return
  }
  known.count += value.count
  for (const [route, times] of Object.entries(value.routes ?? {})) {
    if (known.routes !== undefined) known.routes[route] = (known.routes[route] ?? 0) + times
  }
  if (known.lastUsedAt !== undefined) known.lastUsedAt = Math.max(known.lastUsedAt, value.lastUsedAt ?? 0)
}
