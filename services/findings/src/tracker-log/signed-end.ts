import { ProblemError } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { CheckpointSigner } from './sign.ts'
import { type LogEnd, type SignedEnd, saveSignedEnd } from './store.ts'

/**
 * The log is not what was signed: somebody has changed it past the service. Nothing is added to it, or signed of it. A 503,
 * since nothing is wrong with the request and another would fare no better; without Retry-After, since a person has to look.
 */
export class LogContradicted extends ProblemError {
  constructor() {
    super('log_contradicted', {
      detail:
        'The remediation log of the tenant is not what its last writer has signed. Nothing is added to it, and no checkpoint ' +
        'is made of it, until the operators have looked. Nothing was written; what is there can be read.',
    })
    this.name = 'LogContradicted'
  }
}

interface Signing {
  readonly tenantId: string
  readonly checkpoints: CheckpointSigner
}

/**
 * Throws where the log, up to the end that its last writer has signed, is another than it was then: else the next signature
 * would make good what was changed. True where that signature can stand as a checkpoint. False where none of the published
 * keys has made it, though it says what the log is, as where a key was taken out too soon: nothing rests on it, what is
 * written goes on, and somebody is told, since it may as well have been put there.
 */
export async function assertHolds(signed: SignedEnd | undefined, { tenantId, checkpoints }: Signing): Promise<boolean> {
  if (signed === undefined) return false
  const genuine = await checkpoints.check(signed.jws)
  const said = genuine ?? checkpoints.readUnknown(signed.jws)
  const isOfTheEnd =
    said?.tenant === tenantId &&
    said.position === signed.position &&
    said.root === signed.root &&
    said.day === signed.day &&
    signed.found === signed.root
  if (!isOfTheEnd) {
    checkpoints.watch('contradicted', tenantId, signed)
    throw new LogContradicted()
  }
  if (genuine !== undefined) return true
  checkpoints.watch('unknown_key', tenantId, signed)
  return false
}

/** Signs the end of the log in the transaction that has placed its last entry. The end is held until the commit. */
export async function signEnd(
  tx: Tx,
  { position, root, day }: Pick<LogEnd, 'position' | 'root'> & { readonly day: string },
  { tenantId, checkpoints, now }: Signing & { readonly now: Date },
): Promise<void> {
  const jws = await checkpoints.sign({ tenant: tenantId, position, root, day, signed_at: now.toISOString() })
  await saveSignedEnd(tx, { position, root, day, jws })
}
