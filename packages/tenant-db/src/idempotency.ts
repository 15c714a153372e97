import { randomUUID } from 'node:crypto'
import { type Tx, commitAsynchronously } from './session.ts'
import type { TenantAssertion, TenantDb } from './tenant-transaction.ts'

/** A request with an Idempotency-Key, identified by hashes of 32 bytes. */
export interface RepeatableRequest {
  /** Hash of principal, route and key. Identifies the request. */
  readonly slot: Buffer
  /** Hash of the content. Distinguishes a repetition from another request with the same key. */
  readonly fingerprint: Buffer
}

/** The right to execute a request and store its response. */
export interface HeldClaim {
  readonly slot: Buffer
  readonly id: string
}

export type ClaimOutcome =
  | { readonly kind: 'claimed'; readonly claim: HeldClaim }
  /** Another attempt is running. */
  | { readonly kind: 'in-flight' }
  /** It was executed before; `answer` is its stored response. */
  | { readonly kind: 'answered'; readonly answer: string }
  /** The key was used for a different request. */
  | { readonly kind: 'other' }

/** Stores the responses of a service in a table of the tenant. */
export interface AnswerMemory {
  /**
   * Claims a request in its own asynchronous transaction. A claim may be lost in a crash, because it has no response
   * yet.
   */
  claim(tenant: TenantAssertion, request: RepeatableRequest): Promise<ClaimOutcome>
  /**
   * Stores the response in the transaction of the change. Returns false if another attempt took the claim: then the
   * transaction must be rolled back.
   */
  keep(tx: Pick<Tx, 'execute'>, claim: HeldClaim, answer: string): Promise<boolean>
  /** Stores the response in its own transaction, if the change has none. */
  keepAlone(tenant: TenantAssertion, claim: HeldClaim, answer: string): Promise<boolean>
  /** Releases a claim whose request changed nothing, so that it can be repeated. A stored response stays. */
  release(tenant: TenantAssertion, claim: HeldClaim): Promise<void>
}

/** How long a response is stored, in seconds: 24 hours. */
const keptSeconds = 24 * 60 * 60

/**
 * After this many seconds without a response, the next attempt takes the claim. This is safe even if the first attempt
 * still runs: it stores its response under its claim's id, finds the claim gone, and rolls back.
 */
const abandonedSeconds = 60

/** Opens the memory in the table that `tenancy.create_idempotency_table` created in `schema`. */
export function openAnswerMemory(db: Pick<TenantDb, 'write'>, schema: string): AnswerMemory {
  if (!/^[a-z_]{1,40}$/.test(schema)) throw new Error('not the name of a schema')
  const table = `${schema}.idempotency_record`

  // Served by the primary key; deletions by idempotency_record_by_claimed_at. Never waits for the transaction of
  // another attempt.
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

  // Only one of several attempts takes an abandoned claim, because the others no longer find its id.
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
        // It was released between the two statements. The next attempt finds it free.
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
