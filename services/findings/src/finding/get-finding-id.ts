import { parseResourceAddress } from '@postern/contracts'
import { type RequestInfo, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { findFindingId } from './store.ts'

/** Throws a 404 problem. */
export async function getFindingId(
  db: Deps['db'],
  { params, context }: { readonly params: { readonly id: string }; readonly context: RequestInfo['context'] },
): Promise<string> {
  const address = parseResourceAddress(params.id)
  const findingId = await db.read(context, async (tx) => findFindingId(tx, address))
  if (findingId === undefined) throw problem('not_found')
  return findingId
}
