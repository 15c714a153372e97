import { randomUUID } from 'node:crypto'
import { type Tx, commitAsynchronously } from './session.ts'
import type { TenantAssertion, TenantDb } from './tenant-transaction.ts'

/** Identified by hashes of 32 bytes. */
export interface RepeatableRequest {
  readonly slot: Buffer
  readonly fingerprint: Buffer
}

export interface HeldClaim {
  readonly slot: Buffer
  readonly id: string
}

export type ClaimOutcome =
  | { readonly kind: 'claimed'; readonly claim: HeldClaim }
  | { readonly kind: 'in-flight' }
  | { readonly kind: 'answered'; readonly answer: string }
  | { readonly kind: 'other' }

export interface IdempotencyStore {
  /** Claims a request in its own asynchronous transaction; a crash may lose it. */
  claim(tenant: TenantAssertion, request: RepeatableRequest): Promise<ClaimOutcome>
  /** False: another attempt took the claim, so roll back. */
  keep(tx: Pick<Tx, 'execute'>, claim: HeldClaim, answer: string): Promise<boolean>
  /** Stores the response in its own transaction. */
  storeSeparately(tenant: TenantAssertion, claim: HeldClaim, answer: string): Promise<boolean>
  release(tenant: TenantAssertion, claim: HeldClaim): Promise<void>
}

const keptSeconds = 24 * 60 * 60

/** A first attempt that still runs then finds its claim gone and rolls back. */
const abandonedSeconds = 60

export function openIdempotencyStore(db: Pick<TenantDb, 'write'>, schema: string): IdempotencyStore {
  if (!/^[a-z_]{1,40}$/.test(schema)) throw new Error('not the name of a schema')
  const table = `${schema}.idempotency_record`

  // Never waits for another attempt. Served by the primary key; deletions by idempotency_record_by_claimed_at.
  const claimText = `
    with forgotten as (
      delete from ${table} as r
       using (select o.slot
                from ${table} as o
               where o.tenant_id = (select tenancy.tenant_id())
                 and o.claimed_at < now() - make_interval(secs => $4)
                 and o.slot <> $1
               order by o.claimed_at
               limit 5
                 for update skip locked) as old
       where r.tenant_id = (select tenancy.tenant_id())
         and r.slot = old.slot
    )
    insert into ${table} (tenant_id, slot, fingerprint, claim_id)
    values ((select tenancy.tenant_id()), $1, $2, $3)
    on conflict (tenant_id, slot) do nothing`

  const readText = `
    select r.claim_id, r.fingerprint, r.answer,
           r.claimed_at < now() - make_interval(secs => $2) as is_forgotten,
           r.claimed_at < now() - make_interval(secs => $3) as is_abandoned
      from ${table} as r
     where r.tenant_id = (select tenancy.tenant_id())
       and r.slot = $1`

  // Only one attempt takes an abandoned claim; the others no longer find its id.
  const takeOverText = `
    update ${table} as r
       set claim_id = $3,
           fingerprint = $2,
           claimed_at = now(),
           answer = null
     where r.tenant_id = (select tenancy.tenant_id())
       and r.slot = $1
       and r.claim_id = $4
       and (r.answer is null or r.claimed_at < now() - make_interval(secs => $5))`

  const keepText = `
    update ${table} as r
       set answer = $3
     where r.tenant_id = (select tenancy.tenant_id())
       and r.slot = $1
       and r.claim_id = $2
       and r.answer is null`

  const releaseText = `
    delete from ${table} as r
     where r.tenant_id = (select tenancy.tenant_id())
       and r.slot = $1
       and r.claim_id = $2
       and r.answer is null`

  const named = (name: string, text: string, values: readonly unknown[]) => ({
    name: `${schema}_idempotency_${name}`,
    text,
    values,
  })

  const keep: IdempotencyStore['keep'] = async (tx, { slot, id }, answer) =>
    (await tx.execute(named('keep', keepText, [slot, id, answer]))) === 1

  return {
    claim: async (tenant, { slot, fingerprint }) => {
      const id = randomUUID()
      return await db.write(tenant, async (tx): Promise<ClaimOutcome> => {
        const [, claimed, [found]] = await Promise.all([
          tx.execute(commitAsynchronously),
          tx.execute(named('claim', claimText, [slot, fingerprint, id, keptSeconds])),
          tx.query<StoredRequest>(named('read', readText, [slot, keptSeconds, abandonedSeconds])),
        ])
        if (claimed === 1) return { kind: 'claimed', claim: { slot, id } }
        // Released between the two statements; the next attempt finds it free.
        if (found === undefined) return { kind: 'in-flight' }
        const isSame = found.fingerprint.equals(fingerprint)
        if (!found.is_forgotten) {
          if (!isSame) return { kind: 'other' }
          if (found.answer !== null) return { kind: 'answered', answer: found.answer }
          if (!found.is_abandoned) return { kind: 'in-flight' }
        }
        const taken = await tx.execute(
          named('take_over', takeOverText, [slot, fingerprint, id, found.claim_id, keptSeconds]),
        )
        return taken === 1 ? { kind: 'claimed', claim: { slot, id } } : { kind: 'in-flight' }
      })
    },
    keep,
    storeSeparately: async (tenant, claim, answer) =>
      await db.write(tenant, async (tx) => await keep(tx, claim, answer)),
    release: async (tenant, { slot, id }) => {
      await db.write(tenant, async (tx) => await tx.execute(named('release', releaseText, [slot, id])))
    },
  }
}

interface StoredRequest {
  readonly claim_id: string
  readonly fingerprint: Buffer
  readonly answer: string | null
  readonly is_forgotten: boolean
  readonly is_abandoned: boolean
}
