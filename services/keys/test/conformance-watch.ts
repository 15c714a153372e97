import type { KeysModel, Waiting } from '@postern/local-stack/testing'
import { createLogger } from '@postern/service-kit'
import type { TenantDb } from '@postern/tenant-db'
import { Registry } from '@prometheus-io/client'
import { type LeaseWatch, openLeaseWatch } from '../src/revocation/lease-watch.ts'
import { type Enforcer, openEnforcer } from '../src/revocation/revoke.ts'
import type { GrantRow } from '../src/revocation/store.ts'

/** Deliberate faults in the watch, to check that they are detected. */
export interface WatchSabotage {
  readonly now?: (model: KeysModel) => number
  /** Replaces the rows that the watch reads; `before` holds those of the previous query. */
  readonly rows?: (rows: readonly GrantRow[], before: readonly GrantRow[]) => readonly GrantRow[]
}

/** How many changes were enforced in each way, in all sequences. */
export const enforced = { confirmed: 0, fenced: 0, unseen: 0 }

/** Long enough that no wait ends by the machine's clock. */
const farMs = 600_000

/**
 * Runs `openLeaseWatch` and `openEnforcer` beside their model, on the model's clock and with polls that the test
 * releases.
 */
export class WatchUnderTest {
  readonly watch: LeaseWatch
  readonly #model: KeysModel
  readonly #enforcer: Enforcer
  #arrived = Promise.withResolvers<void>()
  #go = Promise.withResolvers<void>()
  #isGated = false
  readonly #readings: Promise<unknown>[] = []
  #isClosed = false
  #rows: readonly GrantRow[] = []
  #before: readonly GrantRow[] = []
  #registered: (seq: number) => void = () => undefined
  #waiting: { readonly change: Waiting; isOver: boolean }[] = []

  private constructor(db: Pick<TenantDb, 'system'>, model: KeysModel, sabotage: WatchSabotage) {
    this.#model = model
    this.watch = openLeaseWatch({
      db: {
        system: async (work) => {
          if (this.#isGated) await this.#stop()
          const reading = db.system(work)
          if (!this.#isGated) this.#readings.push(reading)
          const value = await reading
          return Array.isArray(value) && sabotage.rows !== undefined
            ? (this.#shown(value, sabotage.rows) as never)
            : value
        },
      },
      now: () => sabotage.now?.(model) ?? model.time,
    })
    this.#enforcer = openEnforcer({
      db,
      announcer: { announce: () => undefined, announceKeys: () => undefined, close: async () => undefined },
      leaseWatch: {
        ...this.watch,
        untilApplied: async (seq) => {
          this.#registered(seq)
          return await this.watch.untilApplied(seq, farMs)
        },
      },
      logger: createLogger({ service: 'test', level: 'silent' }),
      metrics: new Registry(),
    })
  }

  static async open(
    db: Pick<TenantDb, 'system'>,
    model: KeysModel,
    sabotage: WatchSabotage = {},
  ): Promise<WatchUnderTest> {
    const under = new WatchUnderTest(db, model, sabotage)
    // The first poll, while nothing waits.
    await Promise.all(under.#readings)
    await settle()
    under.#isGated = true
    under.#keepLooking()
    await under.#arrived.promise
    return under
  }

  #shown(rows: readonly GrantRow[], change: NonNullable<WatchSabotage['rows']>): readonly GrantRow[] {
    this.#rows = rows
    return change(rows, this.#before)
  }

  async #stop(): Promise<void> {
    this.#arrived.resolve()
    await this.#go.promise
  }

  /** Keeps one wait open, so that the watch sees each grant when it is made. */
  #keepLooking(): void {
    void this.watch.untilApplied(Number.MAX_SAFE_INTEGER, farMs).then(() => {
      if (!this.#isClosed) this.#keepLooking()
    })
  }

  async #look(): Promise<void> {
    const go = this.#go
    this.#arrived = Promise.withResolvers()
    this.#go = Promise.withResolvers()
    // Polls without a pause.
    this.watch.pollNow()
    go.resolve()
    await this.#arrived.promise
    await settle()
  }

  /** Waits for a change that was just committed. Returns its number. */
  async enforce(change: Waiting): Promise<number | undefined> {
    const registered = Promise.withResolvers<number>()
    this.#registered = registered.resolve
    const waiting = { change, isOver: false }
    const { entry } = change
    const answer =
      entry.kind === 'key' ? this.#enforcer.enforceKey(entry.hash) : this.#enforcer.enforceTenant(entry.tenantId)
    const noted = answer.then(
      (enforcement) => {
        waiting.isOver = true
        enforced.confirmed += enforcement?.confirmed ?? 0
        enforced.fenced += enforcement?.fenced ?? 0
        if (enforcement?.gateways === 0) enforced.unseen += 1
      },
      () => undefined,
    )
    this.#waiting.push(waiting)
    return await Promise.race([registered.promise, noted.then(() => undefined)])
  }

  /** Polls, and returns the changes that only one of the two reports as enforced. */
  async differences(): Promise<string[]> {
    // A running poll does not serve later waits.
    await this.#look()
    await this.#look()
    this.#before = this.#rows
    const found = this.#waiting.flatMap(({ change, isOver }) => {
      const isInForce = this.#model.isInForce(change)
      if (isInForce === isOver) return []
      return [
        `change ${change.entry.seq} is${isOver ? '' : ' not'} in force, and in the model it is the other way round`,
      ]
    })
    this.#waiting = this.#waiting.filter(({ isOver }) => !isOver)
    return found
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#isGated = false
    this.#go.resolve()
    await this.watch.close()
    await settle()
  }
}

/** Runs everything that waits for settled promises. */
async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}
