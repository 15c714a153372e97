import type { Tx } from '@postern/tenant-db'
import type { CheckpointSigner } from './sign.ts'
import { type LogEnd, type SignedEnd, saveSignedEnd } from './store.ts'

/** The log is not what was signed: somebody has changed it past the service. Nothing is added to it, or signed of it. */
export class LogContradicted extends Error {
  override readonly name = 'LogContradicted'
}

interface Signing {
  readonly tenantId: string
  readonly checkpoints: CheckpointSigner
}

/**
 * Throws where the log, up to the end that its last writer has signed, is another than it was then: else the next signature
 * would make good what was changed. What no published key has signed is worth nothing, whatever key it names.
 */
export async function assertHolds(signed: SignedEnd | undefined, { tenantId, checkpoints }: Signing): Promise<void> {
  if (signed === undefined) return
  const said = await checkpoints.check(signed.jws)
  const isGenuine =
    said?.tenant === tenantId &&
    said.position === signed.position &&
    said.root === signed.root &&
    said.day === signed.day
  if (isGenuine && signed.found === signed.root) return
  throw new LogContradicted(
    said === undefined
      ? 'the end of the tracker log is signed by no key of POSTERN_CHECKPOINT_KEY: one was taken out too soon, or it was changed past the service'
      : 'the tracker log is not what was signed: it was changed past the service',
  )
}

/** Signs the end of the log in the transaction that has written it. The end is held until the commit. */
export async function signEnd(
  tx: Tx,
  { position, root, day }: Pick<LogEnd, 'position' | 'root'> & { readonly day: string },
  { tenantId, checkpoints, now }: Signing & { readonly now: Date },
): Promise<void> {
  const jws = await checkpoints.sign({ tenant: tenantId, position, root, day, signed_at: now.toISOString() })
  await saveSignedEnd(tx, { position, root, day, jws })
}
