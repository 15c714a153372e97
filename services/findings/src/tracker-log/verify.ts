import type { LogVerification } from '@postern/contracts'
import { type Anchor, parseEntry, verifyFindingLog } from '@postern/log-chain'
import { type RequestContext, isTooLarge } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { type StoredEntry, listFindingEntries } from './store.ts'

const batch = 500

/** Verifies the chain of a finding's log. Stored entries are not trusted to be valid. */
export async function verifyLog(db: TenantDb, tenant: RequestContext, findingId: string): Promise<LogVerification> {
  tenant.share?.enterLargeAnswer()
  let last: Anchor = { seq: 0, hash: null }
  let entries = 0
  let limit = batch
  for (;;) {
    const { seq: after } = last
    const bounds = { after, limit }
    tenant.share?.releaseRows()
    const rows = await db
      .read(tenant, async (tx) => listFindingEntries(tx, findingId, bounds))
      .catch((error: unknown) => {
        if (!isTooLarge(error) || limit === 1) throw error
        return undefined
      })
    if (rows === undefined) {
      limit = Math.max(1, Math.floor(limit / 8))
      continue
    }
    const read = rows.map(readEntry)
    const broken = read.indexOf(undefined)
    const checked = verifyFindingLog(
      read.slice(0, broken === -1 ? undefined : broken).flatMap((entry) => entry ?? []),
      last,
    )
    entries += checked.entries
    last = checked.last
    const fault =
      checked.fault ?? (broken === -1 ? null : ({ seq: rows[broken]?.seq ?? 0, problem: 'content' } as const))
    if (fault !== null || rows.length < limit) {
      return { finding_id: findingId, is_intact: fault === null, entries, last_hash: last.hash, fault }
    }
  }
}

/** Returns undefined if invalid. Entries without a position get 1, which the chain ignores. */
function readEntry({ position, entry, hash }: StoredEntry) {
  try {
    const content: unknown = JSON.parse(entry)
    return typeof content === 'object'
      ? parseEntry({ position: Math.max(1, Number(position)), ...content, hash })
      : undefined
  } catch {
    return undefined
  }
}
