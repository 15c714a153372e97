import type { RequestInfo } from '@postern/service-kit'
import { type TenantDb, findChangedFrom } from '@postern/tenant-db'

export { findFeedMark } from '@postern/tenant-db'

export async function findUpdatedSince(
  db: Pick<TenantDb, 'read'>,
  input: { readonly query: { readonly updated_since?: string | undefined } } & Pick<RequestInfo, 'context'>,
): Promise<Date | undefined> {
  const from = await findChangedFrom(db, input.context, input.query.updated_since)
  return from === undefined ? undefined : new Date(from)
}
