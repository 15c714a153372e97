import type { PushedEntity } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import type { TenantAssertion, TenantDb } from '@postern/tenant-db'
import { cycleFault, depthFault, maxDepth } from './rules.ts'
import { rejectionOf } from './rejection.ts'
import { isTreeRefusal, listMisplaced } from './store.ts'

/** Returns a problem if the database rejected the tree, and other errors unchanged. Call it after the transaction has ended. */
export async function asProblem(
  db: TenantDb,
  { assertion }: TenantAssertion,
  error: unknown,
  entities: () => readonly PushedEntity[],
): Promise<unknown> {
  if (!isTreeRefusal(error)) return error
  const misplaced = await db.read({ assertion }, async (tx) => listMisplaced(tx, entities(), maxDepth))
  const faults = misplaced.map(({ index, fault }) => (fault === 'cycle' ? cycleFault(index) : depthFault(index)))
  if (faults.length > 0) return rejectionOf(faults)
  // The tree changed after the rejection.
  return problem('conflict', { detail: 'Another push changed the tree of entities. Push again.', cause: error })
}
