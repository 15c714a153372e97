import { randomUUID } from 'node:crypto'
import { type LeaseAnswer, floorTtlMs } from '@postern/contracts/internal'
import { type KeyRow, KeysModel, modelEntries } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { findKeyRecord } from '../src/lookup/store.ts'
import { answerLease } from '../src/revocation/lease.ts'
import { pruneLog, readGrants, releaseLease } from '../src/revocation/store.ts'
import type { KeysUnderTest } from './service.ts'

/** A renewal under way: it stops before and after each of its transactions is committed. */
interface Renewal {
  readonly gateway: string
  /** The same of the model, step by step. */
  readonly modelled: (() => void)[]
  readonly expected: () => LeaseAnswer | undefined
  readonly answer: Promise<LeaseAnswer>
  /** Lets it go on to where it stops next. */
  advance(): Promise<void>
}

/** Plays to the keys service and to its model, and notes where they differ. */
export class Play {
  readonly #service: Pick<KeysUnderTest, 'asService' | 'asSuperuser'>
  readonly model: KeysModel
  readonly differences: string[] = []
  readonly renewals: Renewal[] = []
  readonly #gateways = [randomUUID(), randomUUID(), randomUUID()]
  /** What each has applied, as its last answer said. */
  readonly #cursors = new Map<string, number | null>()
  /** A transaction that has changed something and waits to be ended. */
  #open: { end(how: 'commit' | 'rollback'): Promise<void> } | undefined

  constructor(
    service: Pick<KeysUnderTest, 'asService' | 'asSuperuser'>,
    keys: readonly { readonly hash: string; readonly tenantId: string }[],
  ) {
    this.#service = service
    this.model = new KeysModel(0, keys)
  }

  compare(what: string, found: unknown, expected: unknown): void {
    const [one, other] = [JSON.stringify(found), JSON.stringify(expected)]
    if (one !== other) this.differences.push(`${what}: ${one}, and in the model ${other}`)
  }

  gateway(at: number): string {
    return this.#gateways[at % this.#gateways.length] ?? ''
  }

  key(at: number): KeyRow {
    const row = this.model.keys[at % this.model.keys.length]
    if (row === undefined) throw new Error('no key')
    return row
  }

  async begin(kind: 'revoke' | 'narrow' | 'tenant', row: KeyRow): Promise<void> {
    if (this.model.begin(kind, row) === undefined) return
    const statements = {
      revoke: `update keys.api_key set revoked_at = now(), revoked_by_type = 'operator', revoked_by_id = 'x',
                      revoked_by_label = 'x' where hash = decode($1, 'hex')`,
      narrow: `update keys.api_key set expires_at = expires_at - interval '1 second' where hash = decode($1, 'hex')`,
      tenant: `update keys.tenant set status = case status when 'active' then 'suspended' else 'active' end
                where tenant_id = $1::uuid`,
    }
    const [held, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const transaction = this.#service.asSuperuser.system(async (tx) => {
      await tx.execute({ text: statements[kind], values: [kind === 'tenant' ? row.tenantId : row.hash] })
      // The counter is taken as the last act of a transaction; from here on it is held.
      await tx.execute({ text: 'set constraints all immediate', values: [] })
      held.resolve()
      await ended.promise
    })
    transaction.catch(held.reject)
    this.#open = {
      end: async (how) => {
        if (how === 'commit') ended.resolve()
        else ended.reject(new Error('rolled back'))
        await transaction.catch((error: unknown) => {
          if (how === 'commit') throw error
        })
      },
    }
    await held.promise
  }

  async commit(): Promise<void> {
    const open = this.#open
    if (open === undefined) return
    this.#open = undefined
    this.model.commit()
    await open.end('commit')
  }

  async rollback(): Promise<void> {
    await this.#open?.end('rollback')
    for (const renewal of this.renewals.splice(0)) await this.#finish(renewal)
  }

  /** `lag`: it comes with a cursor of before, or of nothing it could know. */
  async renew(gateway: string, lag: number): Promise<void> {
    if (this.renewals.some((each) => each.gateway === gateway)) return
    const known = this.#cursors.get(gateway) ?? null
    const cursor = known === null || lag === 0 ? known : lag === 9 ? known + 7 : Math.max(0, known - lag)
    const request = { gateway, name: 'test', cursor }
    let commit: (() => boolean) | undefined
    let granted = false
    let expected: LeaseAnswer | undefined
    const modelled = [
      ...(cursor === null
        ? []
        : [() => void (commit = this.model.checkLease(request)), () => void (granted = commit?.() === true)]),
      () => void (expected = this.model.readLog(request, granted)),
      () => undefined,
    ]
    const gates = createGates(this.#service.asService)
    const answer = answerLease(
      { db: gates.db, leaseWatch: { lookNow: () => undefined } as never },
      request,
      modelEntries,
    )
    answer.then(gates.ended, gates.ended)
    const renewal = { gateway, modelled, expected: () => expected, answer, advance: gates.advance }
    this.renewals.push(renewal)
    await gates.stopped()
  }

  async advance(at: number): Promise<void> {
    const renewal = this.renewals[at % Math.max(1, this.renewals.length)]
    if (renewal === undefined) return
    renewal.modelled.shift()?.()
    await renewal.advance()
    if (renewal.modelled.length > 0) return
    this.renewals.splice(this.renewals.indexOf(renewal), 1)
    await this.#take(renewal)
  }

  async #finish(renewal: Renewal): Promise<void> {
    for (; renewal.modelled.length > 0; renewal.modelled.shift()?.()) await renewal.advance()
    await renewal.answer
  }

  async #take({ gateway, answer, expected }: Renewal): Promise<void> {
    const { now: _now, ...given } = await answer
    const { now: _modelled, ...wanted } = expected() ?? { now: 0 }
    this.compare(
      'a renewal',
      { ...given, revocations: given.revocations.map(told) },
      { ...wanted, revocations: (expected()?.revocations ?? []).map(told) },
    )
    this.#cursors.set(gateway, given.cursor)
  }

  async release(gateway: string): Promise<void> {
    if (this.renewals.some((each) => each.gateway === gateway)) return
    this.model.release(gateway)
    await this.#service.asService.system(async (tx) => await releaseLease(tx, gateway))
  }

  async pass(ms: number): Promise<void> {
    this.model.time += ms
    await bySuperuser(this.#service, "update keys.revocation set at = at - $1::float8 * interval '1 millisecond'", ms)
  }

  async prune(): Promise<void> {
    if (this.#open !== undefined) return
    this.model.prune()
    await this.#service.asService.system(async (tx) => await pruneLog(tx, { olderThanMs: floorTtlMs, limit: 1000 }))
  }

  /** What a revoke goes by, and what a look-up gives. */
  async look(row: KeyRow): Promise<void> {
    const grants = await this.#service.asService.system(readGrants)
    const shown = grants.map(({ gateway, acked, released }) => ({ gateway, acked, released }))
    this.compare('grants', shown.toSorted(byGateway), this.model.grants().toSorted(byGateway))
    const { record } = await this.#service.asService.system(async (tx) => await findKeyRecord(tx, row.hash))
    const wanted = this.model.findKey(row.hash)
    this.compare('a key', keyOf(record), keyOf(wanted))
  }
}

function byGateway(one: { readonly gateway: string }, other: { readonly gateway: string }): number {
  return one.gateway < other.gateway ? -1 : 1
}

function told(entry: LeaseAnswer['revocations'][number]) {
  return entry.kind === 'key'
    ? [entry.kind, entry.seq, entry.hash, entry.version, entry.revoked]
    : [entry.kind, entry.seq, entry.tenantId, entry.version]
}

function keyOf(record: ReturnType<KeysModel['findKey']> | undefined) {
  if (record === null || record === undefined) return undefined
  const { hash, tenantId, tenantStatus, tenantVersion, revoked, version } = record
  return { hash, tenantId, tenantStatus, tenantVersion, revoked, version }
}

/** A database whose transactions stop before they begin and before they commit, until they are let go on. */
function createGates(db: TenantDb) {
  let arrived = Promise.withResolvers<void>()
  let go = Promise.withResolvers<void>()
  const gate = async (): Promise<void> => {
    arrived.resolve()
    await go.promise
  }
  const staged: TenantDb = {
    ...db,
    system: async (work) => {
      await gate()
      return await db.system(async (tx) => {
        const value = await work(tx)
        await gate()
        return value
      })
    },
  }
  return {
    db: staged,
    stopped: async () => await arrived.promise,
    /** There is nothing left to stop it. */
    ended: () => arrived.resolve(),
    advance: async () => {
      const opened = go
      arrived = Promise.withResolvers()
      go = Promise.withResolvers()
      opened.resolve()
      await arrived.promise
    },
  }
}

/** Runs a statement past row security. */
export async function bySuperuser(
  { asSuperuser }: Pick<KeysUnderTest, 'asSuperuser'>,
  text: string,
  ...values: readonly unknown[]
): Promise<void> {
  await asSuperuser.system(async (tx) => await tx.execute({ text, values }))
}
