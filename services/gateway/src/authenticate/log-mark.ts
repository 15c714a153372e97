import { hash } from 'node:crypto'
import type { Revocation } from '@postern/contracts/internal'

/** Computes the next mark of the log, as leases.ts of the contracts and keys.log_change do. */
export function nextMark(before: string, revocation: Revocation): string {
  const { seq, kind, version } = revocation
  const [subject, revoked] =
    revocation.kind === 'key' ? [revocation.hash, revocation.revoked ? 1 : 0] : [revocation.tenantId, 0]
  return hash('sha256', [before, seq, kind, subject, version, revoked].join(' '))
}
