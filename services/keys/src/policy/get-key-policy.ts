import { problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { type StoredPolicy, findKeyPolicy } from './store.ts'

/** Throws a 404 problem without the tenant: an assertion can outlive it. */
export async function getKeyPolicy(tx: Tx): Promise<StoredPolicy> {
  const policy = await findKeyPolicy(tx)
  if (policy === undefined) throw problem('not_found')
  return policy
}
