import { randomUUID } from 'node:crypto'
import type { LeaseAnswer } from '@postern/contracts/internal'
import { type KeyRow, KeysModel, modelEntries } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { findKeyRecord } from '../src/lookup/store.ts'
import { answerLease } from '../src/revocation/lease.ts'
import { type LogPruner, createLogPruner } from '../src/revocation/prune-log.ts'
import { readGrants, releaseLease } from '../src/revocation/store.ts'
import { WatchUnderTest, type WatchSabotage } from './conformance-watch.ts'
import type { KeysUnderTest } from './service.ts'

/** A renewal in progress. It stops before and after each commit. */
interface Renewal {
  readonly gateway: string
  readonly modelled: (() => void)[]
  readonly expected: () => LeaseAnswer | undefined
  readonly answer: Promise<LeaseAnswer>
  /** Runs it to the next stop. */
  advance(): Promise<void>
}

/** How often each answer occurred in all sequences, and how often a gateway started or sent a foreign cursor. */
export const answered = { granted: 0, partial: 0, reset: 0, neither: 0, starting: 0, elsewhere: 0, another: 0 }

const isOfAnother = (lag: number): boolean => lag === 10

/** Runs the same steps on the keys service and its model, and records differences. */
export class Play {
  readonly #service: Pick<KeysUnderTest, 'asService' | 'asSuperuser'>
  readonly model: KeysModel
  readonly #watch: WatchUnderTest
  readonly #log: LogPruner
  readonly differences: string[] = []
  readonly renewals: Renewal[] = []
  readonly #gateways = [randomUUID(), randomUUID(), randomUUID()]
  readonly #cursors = new Map<string, { readonly seq: number; readonly mark: string | null }>()
  #open: { end(how: 'commit' | 'rollback'): Promise<void> } | undefined

  private constructor(
    service: Pick<KeysUnderTest, 'asService' | 'asSuperuser'>,
    model: KeysModel,
    watch: WatchUnderTest,
  ) {
    this.#service = service
    this.model = model
    this.#watch = watch
    this.#log = createLogPruner({ db: service.asService, now: () => model.time })
  }

  static async open(
    service: Pick<KeysUnderTest, 'asService' | 'asSuperuser'>,
    keys: readonly { readonly hash: string; readonly tenantId: string }[],
    sabotage: WatchSabotage = {},
  ): Promise<Play> {
    const model = new KeysModel(0, keys)
    return new Play(service, model, await WatchUnderTest.open(service.asService, model, sabotage))
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
      // Taking the counter is the last act of a transaction. It stays locked from here on.
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
    const change = this.model.commit()
    await open.end('commit')
    if (change === undefined) return
    this.compare('a change to wait for', await this.#watch.enforce(change), change.entry.seq)
  }

  async close(): Promise<void> {
    await this.#open?.end('rollback')
    for (const renewal of this.renewals.splice(0)) await this.#finish(renewal)
    await this.#watch.close()
  }

  /** `lag`: the gateway sends an old, invented or foreign cursor. */
  async renew(gateway: string, lag: number): Promise<void> {
    if (this.renewals.some((each) => each.gateway === gateway)) return
    const known = this.#cursors.get(gateway)
    const cursor =
      known === undefined
        ? null
        : isOfAnother(lag)
          ? known.seq
          : lag === 9
            ? known.seq + 7
            : Math.max(0, known.seq - lag)
    const mark = cursor !== known?.seq ? null : isOfAnother(lag) ? 'f'.repeat(64) : known.mark
    const request = { gateway, name: 'test', cursor, mark }
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
    const answer = answerLease({ db: gates.db, leaseWatch: this.#watch.watch }, request, modelEntries)
    if (cursor === null) answered.starting += 1
    else if (isOfAnother(lag)) answered.another += 1
    else if (cursor !== known?.seq) answered.elsewhere += 1
    answer.then(gates.ended, gates.ended)
    const renewal = { gateway, modelled, expected: () => expected, answer, advance: gates.advance }
    this.renewals.push(renewal)
    await gates.stopped()
  }

  /** Renews without other steps in between until the lease is granted. */
  async quiet(gateway: string): Promise<void> {
    const { granted } = answered
    for (let count = 0; count < 4 && answered.granted === granted; count += 1) {
      await this.renew(gateway, 0)
      const renewal = this.renewals.findIndex((each) => each.gateway === gateway)
      const { length } = this.renewals
      while (this.renewals.length === length) await this.advance(renewal)
    }
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
    this.#cursors.set(gateway, { seq: given.cursor, mark: given.mark ?? null })
    const isPartial = given.revocations.length === modelEntries
    answered[given.granted ? 'granted' : given.reset ? 'reset' : isPartial ? 'partial' : 'neither'] += 1
  }

  async release(gateway: string): Promise<void> {
    if (this.renewals.some((each) => each.gateway === gateway)) return
    this.model.release(gateway)
    await this.#service.asService.system(async (tx) => await releaseLease(tx, gateway))
  }

  /** The model watches all the time; the service polls before time passes. */
  async pass(ms: number): Promise<void> {
    await this.#watched()
    await this.prune()
    this.model.time += ms
    await this.#watched()
  }

  async #watched(): Promise<void> {
    this.differences.push(...(await this.#watch.differences()))
  }

  /** Sets PostgreSQL's clock: existing rows seem older or younger by this time. */
  async step(ms: number): Promise<void> {
    this.model.step(ms)
    await bySuperuser(this.#service, "update keys.revocation set at = at - $1::float8 * interval '1 millisecond'", ms)
  }

  async prune(): Promise<void> {
    this.model.prune()
    await this.#log.prune()
  }

  /** Compares what revokes and look-ups read. */
  async look(row: KeyRow): Promise<void> {
    await this.#watched()
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

/** A database whose transactions stop before they begin and before they commit, until they are released. */
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

/** Runs a statement as the superuser, bypassing row security. */
export async function bySuperuser(
  { asSuperuser }: Pick<KeysUnderTest, 'asSuperuser'>,
  text: string,
  ...values: readonly unknown[]
): Promise<void> {
  await asSuperuser.system(async (tx) => await tx.execute({ text, values }))
}
