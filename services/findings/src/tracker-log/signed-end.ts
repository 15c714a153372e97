import { ProblemError } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { CheckpointSigner } from './sign.ts'
import { type LogEnd, type SignedEnd, saveSignedEnd } from './end/store.ts'

/**
 * Someone changed the log outside of the service. The service stops writing and signing until a person has examined it.
 */
export class LogContradictedError extends ProblemError {
  constructor() {
    super('log_contradicted', {
      detail:
        'The remediation log differs from its signed end, so nothing was written. The log stays readable. Contact the ' +
        'operator.',
    })
    this.name = 'LogContradictedError'
  }
}

interface Signing {
  readonly tenantId: string
  readonly checkpoints: CheckpointSigner
}

/** Throws LogContradictedError if the log differs from its signed end. Returns whether a published key signed it. */
export async function verifySignedEnd(
  signed: SignedEnd | undefined,
  { tenantId, checkpoints }: Signing,
): Promise<boolean> {
  if (signed === undefined) return false
  const genuine = await checkpoints.verify(signed.jws)
  const claimed = genuine ?? checkpoints.parseUnverified(signed.jws)
  const isOfTheEnd =
    claimed?.tenant === tenantId &&
    claimed.position === signed.position &&
    claimed.root === signed.root &&
    claimed.day === signed.day &&
    signed.found === signed.root
  if (!isOfTheEnd) {
    checkpoints.reportBadEnd('contradicted', tenantId, signed)
    throw new LogContradictedError()
  }
  if (genuine !== undefined) return true
  checkpoints.reportBadEnd('unknown_key', tenantId, signed)
  return false
}

/** Call it in the transaction that placed the last entry, with the end locked. */
export async function signEnd(
  tx: Tx,
  { position, root, day }: Pick<LogEnd, 'position' | 'root'> & { readonly day: string },
  { tenantId, checkpoints, now }: Signing & { readonly now: Date },
): Promise<void> {
  const jws = await checkpoints.sign({ tenant: tenantId, position, root, day, signed_at: now.toISOString() })
  await saveSignedEnd(tx, { position, root, day, jws })
}
