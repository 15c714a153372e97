import type { Connector, Run, RunCounts } from '@postern/contracts'
import { parseAssertion } from '@postern/signed-context'
import type { Attempt } from '../import/imports.ts'
import type { Asker } from '../push/asker.ts'
import {
  type HeldRun,
  type Progress,
  type TenantDb,
  type Tx,
  advanceRun,
  allowLongStatements,
  isSuspended,
  issueAssertion,
  lookAtRun,
  releaseRun,
} from './store.ts'

/** Another worker has the run: whatever this one still wants to do is no longer its to do. */
export class RunLost extends Error {
  override readonly name = 'RunLost'
}

/** Somebody has asked for the run to be cancelled. */
export class RunCancelled extends Error {
  override readonly name = 'RunCancelled'
}

/** The run cannot succeed, whoever tries; `message` says what to mend. */
export class RunRefused extends Error {
  override name = 'RunRefused'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The platform has suspended the tenant: nothing more is done in its name. */
export class TenantSuspended extends RunRefused {
  constructor() {
    super('tenant_suspended', 'The tenant is suspended. Run the connector again when it is no more.')
    this.name = 'TenantSuspended'
  }
}

/** Half of how long an assertion lives, in milliseconds: one that is younger outlives the statement it is used for. */
const renewAfterMs = 30_000

/** One worker's hold on one run: its assertions, and transactions that are committed only while it holds the run. */
export class Hold {
  readonly run: HeldRun
  readonly connector: Connector
  readonly worker: string
  readonly #db: TenantDb
  readonly #assertions: AssertionSource
  #status: Run['status']
  #counts: RunCounts
  #diffHash: string

  constructor(db: TenantDb, assertions: AssertionSource, worker: string, run: HeldRun, connector: Connector) {
    this.#db = db
    this.#assertions = assertions
    this.worker = worker
    this.run = run
    this.connector = connector
    this.#status = run.status
    this.#counts = run.counts
    this.#diffHash = run.diffHash ?? ''
  }

  get status(): Run['status'] {
    return this.#status
  }

  get counts(): RunCounts {
    return this.#counts
  }

  /** The hash of the planned changes. */
  get diffHash(): string {
    return this.#diffHash
  }

  /** In whose name the universe is asked. */
  async asker(): Promise<Asker> {
    const assertion = await this.#assertions.get()
    return {
      tenantId: parseAssertion(assertion)?.tenantId ?? '',
      assertion,
      runId: this.run.id,
      connectorId: this.connector.id,
      label: this.connector.name,
      requestId: this.run.id,
    }
  }

  /** In whose name the import of the run is carried out. */
  async importAttempt(): Promise<Attempt> {
    return { asker: await this.asker(), attempt: this.run.attempt }
  }

  /** Throws TenantSuspended. Nothing is read from a source, and nothing sent to the universe, without having asked. */
  async assertNotSuspended(): Promise<void> {
    if (await this.#db.system(async (tx) => await isSuspended(tx, this.run.id, this.worker)))
      throw new TenantSuspended()
  }

  /** Throws RunLost, RunCancelled and TenantSuspended where the run is not to go on. Writes nothing: may be asked beside a step. */
  async assertWanted(): Promise<void> {
    await this.assertNotSuspended()
    const held = await this.read(async (tx) => await lookAtRun(tx, this.run.id, this.worker))
    if (held === 'lost') throw new RunLost()
    if (held === 'cancel-asked') throw new RunCancelled()
  }

  /** To be called where an attempt is given up: whoever cancels the run before the next one is not to wait for it. `note` writes why it was. */
  async release(note: (tx: Tx) => Promise<unknown>): Promise<void> {
    const assertion = await this.#assertions.get()
    await this.#db.write({ assertion }, async (tx) => {
      if (await releaseRun(tx, this.run.id, this.worker)) await note(tx)
    })
  }

  async read<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const assertion = await this.#assertions.get()
    return await this.#db.write({ assertion }, async (tx) => {
      await allowLongStatements(tx)
      return await work(tx)
    })
  }

  /**
   * Does one step: what `work` writes and how far the run is by then are committed together, or not at all where
   * another worker has the run. Throws RunLost and RunCancelled.
   */
  async step(
    work: (tx: Tx) => Promise<Omit<Partial<Progress>, 'counts'> & { readonly counts?: Partial<RunCounts> }>,
  ): Promise<void> {
    const assertion = await this.#assertions.get()
    const reached = await this.#db.write({ assertion }, async (tx) => {
      await allowLongStatements(tx)
      const { counts, status, ...more } = await work(tx)
      const progress = { ...more, status: status ?? this.#status, counts: { ...this.#counts, ...counts } }
      const held = await advanceRun(tx, this.run.id, this.worker, progress)
      if (held === 'lost') throw new RunLost()
      // Whoever cancels it later finds that it waits; who has asked before is not to wait for a decision.
      if (held === 'cancel-asked' && progress.status === 'needs_approval') throw new RunCancelled()
      return { held, progress }
    })
    this.#status = reached.progress.status
    this.#counts = reached.progress.counts
    this.#diffHash = reached.progress.diffHash ?? this.#diffHash
    if (reached.held === 'cancel-asked' && !isEnd(this.#status)) throw new RunCancelled()
  }
}

function isEnd(status: Run['status']): boolean {
  return status === 'succeeded' || status === 'partial' || status === 'failed' || status === 'cancelled'
}

/** Assertions for one piece of work, each used for half of its life. */
export class AssertionSource {
  readonly #db: TenantDb
  readonly #workId: string
  readonly #worker: string
  #current: { readonly assertion: string; readonly issuedAt: number } | undefined

  constructor(db: TenantDb, workId: string, worker: string) {
    this.#db = db
    this.#workId = workId
    this.#worker = worker
  }

  async get(): Promise<string> {
    const now = performance.now()
    if (this.#current !== undefined && now - this.#current.issuedAt < renewAfterMs) return this.#current.assertion
    const assertion = await this.#db.system(async (tx) => await issueAssertion(tx, this.#workId, this.#worker))
    this.#current = { assertion, issuedAt: now }
    return assertion
  }
}
