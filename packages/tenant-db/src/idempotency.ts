import { randomUUID } from 'node:crypto'
import { type Tx, commitAsynchronously } from './session.ts'
import type { TenantAssertion, TenantDb } from './tenant-transaction.ts'

/** One request with an Idempotency-Key, by hashes of 32 bytes. */
export interface RepeatableRequest {
  /** Of principal, route and key: what makes it the same request. */
  readonly slot: Buffer
  /** Of what it says: what tells a repetition from another request under the same key. */
  readonly fingerprint: Buffer
}

/** The right to carry a request out and to say what its answer was. */
export interface HeldClaim {
  readonly slot: Buffer
  readonly id: string
}

export type ClaimOutcome =
  | { readonly kind: 'claimed'; readonly claim: HeldClaim }
  /** Another attempt is at work. */
  | { readonly kind: 'in-flight' }
  /** It was carried out before; `answer` is what was kept then. */
  | { readonly kind: 'answered'; readonly answer: string }
  /** The key was used for a request that says something else. */
  | { readonly kind: 'other' }

/** Remembers the answers of a service, one table of the tenant's rows. */
export interface AnswerMemory {
  /** Claims a request, in a transaction of its own that waits for no disk and no standby: a lost claim had no answer. */
  claim(tenant: TenantAssertion, request: RepeatableRequest): Promise<ClaimOutcome>
  /**
   * Keeps the answer, in the transaction of the change itself: both are committed or neither. False when the claim was
   * taken over: what the transaction has changed must then not be committed.
   */
  keep(tx: Pick<Tx, 'execute'>, claim: HeldClaim, answer: string): Promise<boolean>
  /** The same in a transaction of its own, where the change has none that could hold it. */
  keepAlone(tenant: TenantAssertion, claim: HeldClaim, answer: string): Promise<boolean>
  /** Gives back a claim whose request has changed nothing, so that it can be repeated. An answer that was kept stays. */
  release(tenant: TenantAssertion, claim: HeldClaim): Promise<void>
}

/** How long an answer is kept, in seconds: 24 hours. */
const keptSeconds = 24 * 60 * 60

/**
 * After this many seconds without an answer a claim passes to the next attempt: the process that held it is taken for
 * dead. It is safe when it is not: the answer is written under the claim's id in the transaction of the change, so the
 * first attempt finds its claim gone and rolls back what it has done. At most one of them commits.
 */
const abandonedSeconds = 60

/** Opens the memory in the table that `tenancy.create_idempotency_table` has made in `schema`. */
export function openAnswerMemory(db: Pick<TenantDb, 'write'>, schema: string): AnswerMemory {
  if (!/^[a-z_]{1,40}$/.test(schema)) throw new Error('not the name of a schema')
  const table = `${schema}.idempotency_record`

  // Served by the primary key; the forgetting, a few at a time, by idempotency_record_by_claimed_at. Nothing here waits
  // for the transaction in which another attempt is at work.
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

  // Of several that find the same claim abandoned one gets it: the others no longer find the id that they saw.
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

  const keep: AnswerMemory['keep'] = async (tx, { slot, id }, answer) =>
    (await tx.execute(named('keep', keepText, [slot, id, answer]))) === 1

  return {
    claim: async (tenant, { slot, fingerprint }) => {
      const id = randomUUID()
      return await db.write(tenant, async (tx): Promise<ClaimOutcome> => {
        const [, claimed, [found]] = await Promise.all([
          tx.execute(commitAsynchronously),
          tx.execute(named('claim', claimText, [slot, fingerprint, id, keptSeconds])),
          tx.query<Found>(named('read', readText, [slot, keptSeconds, abandonedSeconds])),
        ])
        if (claimed === 1) return { kind: 'claimed', claim: { slot, id } }
        // Released between the two statements: the next attempt will find it free.
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
    keepAlone: async (tenant, claim, answer) => await db.write(tenant, async (tx) => await keep(tx, claim, answer)),
    release: async (tenant, { slot, id }) => {
      await db.write(tenant, async (tx) => await tx.execute(named('release', releaseText, [slot, id])))
    },
  }
}

interface Found {
  readonly [column: string]: unknown
  readonly claim_id: string
  readonly fingerprint: Buffer
  readonly answer: string | null
  readonly is_forgotten: boolean
  readonly is_abandoned: boolean
}
