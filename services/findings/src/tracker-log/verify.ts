import type { LogVerification } from '@postern/contracts'
import { type Anchor, parseEntry, verifyFindingLog } from '@postern/log-chain'
import type { TenantAssertion, TenantDb } from '@postern/tenant-db'
import { type StoredEntry, listFindingEntries } from './store.ts'

/** Entries that a check of a chain holds in memory at a time. */
const batch = 500

/** Checks the chain of a finding from its first entry. What is stored is not trusted: it may be no entry at all. */
export async function verifyLog(db: TenantDb, tenant: TenantAssertion, findingId: string): Promise<LogVerification> {
  let last: Anchor = { seq: 0, hash: null }
  let entries = 0
  for (;;) {
    const { seq: after } = last
    const rows = await db.read(tenant, async (tx) => listFindingEntries(tx, findingId, { after, limit: batch }))
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
    if (fault !== null || rows.length < batch) {
      return { finding_id: findingId, is_intact: fault === null, entries, last_hash: last.hash, fault }
    }
  }
}

/** The entry as it was stored; undefined where it is none. */
function readEntry({ entry, hash }: StoredEntry) {
  try {
    const content: unknown = JSON.parse(entry)
    return typeof content === 'object' ? parseEntry({ ...content, hash }) : undefined
  } catch {
    return undefined
  }
}
