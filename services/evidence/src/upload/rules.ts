import type { EvidenceDetails } from '@postern/contracts'

const aheadMs = 5 * 60 * 1000
const dayMs = 24 * 60 * 60 * 1000

/** The first time in the future. A day may be ahead of UTC, and a period may end in the future. */
export function findUntimely(
  { collected_at: collectedAt, evidence_date: day }: Pick<EvidenceDetails, 'collected_at' | 'evidence_date'>,
  now: number,
): { readonly member: 'collected_at' | 'evidence_date'; readonly detail: string } | undefined {
  if (collectedAt !== undefined && Date.parse(collectedAt) > now + aheadMs) {
    return { member: 'collected_at', detail: 'must not be later than now' }
  }
  if (day !== undefined && day > new Date(now + dayMs).toISOString().slice(0, 10)) {
    return { member: 'evidence_date', detail: 'must not be later than tomorrow (UTC)' }
  }
  return undefined
}

export function formatReference(year: number, number: string): string {
  return `EV-${year}-${number.padStart(6, '0')}`
}
