import { hash } from 'node:crypto'
import type { Revocation } from '@postern/contracts/internal'

/** Computes the mark of the log at an entry from the mark before it (leases.ts of the contracts; keys.log_change). */
export function nextMark(before: string, revocation: Revocation): string {
  const { seq, kind, version } = revocation
  const [subject, revoked] =
    revocation.kind === 'key' ? [revocation.hash, revocation.revoked ? 1 : 0] : [revocation.tenantId, 0]
  return hash('sha256', [before, seq, kind, subject, version, revoked].join(' '))
}
