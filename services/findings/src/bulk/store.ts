import type { ResourceAddress } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'

/**
 * Runs a part of a transaction that can fail alone: when it rejects, what it did is undone and the transaction goes on.
 * Parts run one after the other.
 */
export async function attempt<T>(tx: Tx, work: () => Promise<T>): Promise<T> {
  // Beginning and end travel with the statement that comes next, which fails where they do.
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

/**
 * Locks the findings at the addresses and those of the plans at the addresses, in one order: two requests for many
 * wait for each other, and never both.
 */
export async function lockAll(
  tx: Tx,
  { findings, plans }: { readonly findings: readonly ResourceAddress[]; readonly plans: readonly ResourceAddress[] },
): Promise<void> {
  await tx.query(lock([...addressValues(findings), ...addressValues(plans)]))
}

/** The addresses as three arrays, by what they name. */
function addressValues(addresses: readonly ResourceAddress[]): readonly (readonly string[])[] {
  return [
    addresses.flatMap((address) => (address.by === 'id' ? [address.id] : [])),
    addresses.flatMap((address) => (address.by === 'reference' ? [address.reference] : [])),
    addresses.flatMap((address) => (address.by === 'external-id' ? [address.externalId] : [])),
  ]
}

const begin = statement('bulk_begin', 'savepoint part')
const end = statement('bulk_end', 'release savepoint part')
const undo = statement('bulk_undo', 'rollback to savepoint part')

// Not by name: planned for the arrays that are there. The unique indexes of finding and action_plan.
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
