import { hash } from 'node:crypto'
import type { Revocation } from '@postern/contracts/internal'

/**
 * The mark of the log up to a revocation, from that up to the entry before it (leases.ts of the contracts; keys.log_change). Who knows
 * it has heard what the log says, and not only the number.
 */
export function nextMark(before: string, revocation: Revocation): string {
  const { seq, kind, version } = revocation
  const [subject, revoked] =
    revocation.kind === 'key' ? [revocation.hash, revocation.revoked ? 1 : 0] : [revocation.tenantId, 0]
  return hash('sha256', [before, seq, kind, subject, version, revoked].join(' '))
}
