import type { ProblemCode } from '@postern/contracts'
import { type UsageReport, maxRecentRefusals, maxRefusalsTogether } from '@postern/contracts/internal'
import type { Principal } from './authenticate/principal.ts'
import type { Exchange } from './exchange.ts'
import { type UsageSource, createUsageSource } from './usage-report.ts'

type Line = NonNullable<UsageReport['refusals']>[number]
type Count = Line['counts'][number]
type RecentRefusal = Line['recent'][number]

/** Refusals of one key since the last report. */
interface KeyRefusals {
  readonly keyId: string
  readonly tenantId: string
  readonly counts: Map<string, Count>
  recent: RecentRefusal[]
}

export type RefusedRequest = Pick<Exchange, 'address' | 'route' | 'requestId' | 'method'>

export interface RefusalCounts {
  add(principal: Principal, request: RefusedRequest, code: ProblemCode): void
  readonly source: UsageSource
  /** Call after reports. */
  release(): void
}

/** Refusals of the caller or its request. Others, such as an overload, say nothing about the key. */
const counted: ReadonlySet<ProblemCode> = new Set<ProblemCode>([
  'key_revoked',
  'key_expired',
  'tenant_suspended',
  'address_not_allowed',
  'not_found',
  'method_not_allowed',
  'insufficient_scope',
  'role_required',
  'too_many_requests',
])

/** Further keys are not counted. */
const maxKeys = 20_000
/** Further addresses and routes of a key are counted without names. */
const maxNamed = 20
/** Counts and refusals of all keys. */
const maxItems = 100_000

/** `now` returns milliseconds since the epoch. */
export function createRefusalCounts(now: () => number): RefusalCounts {
  const keys = new Map<string, KeyRefusals>()
  let items = 0

  function linesOf({ keyId, tenantId }: Pick<KeyRefusals, 'keyId' | 'tenantId'>): KeyRefusals | undefined {
    const known = keys.get(keyId)
    if (known !== undefined || keys.size >= maxKeys) return known
    const made = { keyId, tenantId, counts: new Map<string, Count>(), recent: [] }
    keys.set(keyId, made)
    return made
  }

  function count({ counts }: KeyRefusals, more: Count): void {
    const isNamed = counts.has(nameOf(more)) || (counts.size < maxNamed && items < maxItems)
    const added = isNamed ? more : { ...more, address: null, route: null }
    const known = counts.get(nameOf(added))
    if (known === undefined) {
      counts.set(nameOf(added), added)
      items += 1
      return
    }
    known.count += more.count
    known.firstAt = Math.min(known.firstAt, more.firstAt)
    known.lastAt = Math.max(known.lastAt, more.lastAt)
  }

  return {
    add: ({ kind, id, tenantId }, { address, route: matched, requestId, method }, code) => {
      if (kind !== 'api_key' || !counted.has(code)) return
      const lines = linesOf({ keyId: id, tenantId })
      if (lines === undefined) return
      const at = now()
      const route = matched?.id ?? null
      count(lines, { address, route, code, count: 1, firstAt: at, lastAt: at })
      if (lines.recent.length === maxRecentRefusals) lines.recent.shift()
      else if (items < maxItems) items += 1
      else return
      lines.recent.push({ at, requestId, method, route, address, code })
    },
    source: createUsageSource('refusals', keys, {
      maxLines: maxRefusalsTogether,
      report: (some) => ({
        uses: [],
        denials: [],
        refusals: some.map(({ counts, ...line }) => ({ ...line, counts: [...counts.values()] })),
      }),
      keep: (line) => {
        const lines = linesOf(line)
        if (lines === undefined) return
        for (const each of line.counts.values()) count(lines, each)
        lines.recent = [...line.recent, ...lines.recent].slice(-maxRecentRefusals)
      },
    }),
    release: () => {
      items = 0
      for (const { counts, recent } of keys.values()) items += counts.size + recent.length
    },
  }
}

function nameOf({ code, route, address }: Count): string {
  return `${code} ${route ?? ''} ${address ?? ''}`
}
