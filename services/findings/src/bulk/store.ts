import type { ResourceAddress } from '@postern/contracts'
import { type Tx, addressLists, statement } from '@postern/tenant-db'

/** Savepoints must not overlap. */
export async function runWithSavepoint<T>(tx: Tx, work: () => Promise<T>): Promise<T> {
  // Not awaited: if the savepoint fails, so does the next statement.
  tx.execute(begin([])).catch(() => undefined)
  try {
    const value = await work()
    tx.execute(end([])).catch(() => undefined)
    return value
  } catch (error) {
    await tx.execute(undo([]))
    await tx.execute(end([]))
    throw error
  }
}

/** In order of id, so that bulk requests cannot deadlock each other. */
export async function lockAll(
  tx: Tx,
  { findings, plans }: { readonly findings: readonly ResourceAddress[]; readonly plans: readonly ResourceAddress[] },
): Promise<void> {
  await tx.query(lock([...addressLists(findings), ...addressLists(plans)]))
}

const begin = statement('bulk_begin', 'savepoint part')
const end = statement('bulk_end', 'release savepoint part')
const undo = statement('bulk_undo', 'rollback to savepoint part')

// Unnamed, so that PostgreSQL plans for the given arrays.
const lock = (values: readonly unknown[]) => ({
  text: `select f.id
  from findings.finding f
  where f.id = any($1::uuid[])
    or f.reference = any($2::text[])
    or f.external_id = any($3::text[])
    or f.id = any(array(
      select p.finding_id
      from findings.action_plan p
      where p.id = any($4::uuid[]) or p.reference = any($5::text[]) or p.external_id = any($6::text[])
    ))
  order by f.id
  for no key update`,
  values,
})
