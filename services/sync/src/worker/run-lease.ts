import type { Connector, Run, RunCounts } from '@postern/contracts'
import type { TenantDb, Tx } from '@postern/tenant-db'
import type { Attempt } from '../import/imports.ts'
import type { ImportCaller } from '../push/import-caller.ts'
import { isFinal } from '../run/rules.ts'
import type { AssertionSource } from '../granted-work/session.ts'
import { isSuspended } from '../granted-work/store.ts'
import { type LeasedRun, type Progress, advanceRun, allowLongStatements, findRunState, releaseRun } from './store.ts'

/** Another worker has the run, so this one must stop. */
export class RunLostError extends Error {
  override readonly name = 'RunLostError'
}

export class RunCancelledError extends Error {
  override readonly name = 'RunCancelledError'
}

/** A retry cannot succeed; `message` says what to fix. */
export class RunRefusedError extends Error {
  override name = 'RunRefusedError'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export class TenantSuspendedError extends RunRefusedError {
  constructor() {
    super('tenant_suspended', 'The tenant is suspended. Run the connector again after the tenant has been resumed.')
    this.name = 'TenantSuspendedError'
  }
}

/** A worker's lease on a run. Its transactions commit only while it has the run. */
export class RunLease {
  readonly run: LeasedRun
  readonly connector: Connector
  readonly worker: string
  readonly #db: TenantDb
  readonly #assertions: AssertionSource
  #status: Run['status']
  #counts: RunCounts
  #diffHash: string

  constructor(db: TenantDb, assertions: AssertionSource, worker: string, run: LeasedRun, connector: Connector) {
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

  get diffHash(): string {
    return this.#diffHash
  }

  async caller(): Promise<ImportCaller> {
    const { tenantId, assertion } = await this.#assertions.getWithTenant()
    return {
      tenantId,
      assertion,
      runId: this.run.id,
      connectorId: this.connector.id,
      label: this.connector.name,
      requestId: this.run.id,
    }
  }

  async importAttempt(): Promise<Attempt> {
    return { caller: await this.caller(), attempt: this.run.attempt }
  }

  /** Throws TenantSuspendedError. Call it before reading a source or writing to the universe. */
  async assertNotSuspended(): Promise<void> {
    if (await this.#db.system(async (tx) => await isSuspended(tx, this.run.id, this.worker)))
      throw new TenantSuspendedError()
  }

  /** Throws RunLostError, RunCancelledError or TenantSuspendedError if the run must stop. Writes nothing, so it can run beside a step. */
  async assertWanted(): Promise<void> {
    await this.assertNotSuspended()
    const held = await this.read(async (tx) => await findRunState(tx, this.run.id, this.worker))
    if (held === 'lost') throw new RunLostError()
    if (held === 'cancel-asked') throw new RunCancelledError()
  }

  /** Releases the run when an attempt is given up, so that it can be cancelled at once. `note` records the reason. */
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

  /** Commits what `work` writes together with the progress of the run. Throws RunLostError and RunCancelledError. */
  async commitStep(
    work: (tx: Tx) => Promise<Omit<Partial<Progress>, 'counts'> & { readonly counts?: Partial<RunCounts> }>,
  ): Promise<void> {
    const assertion = await this.#assertions.get()
    const reached = await this.#db.write({ assertion }, async (tx) => {
      await allowLongStatements(tx)
      const { counts, status, ...more } = await work(tx)
      const progress = { ...more, status: status ?? this.#status, counts: { ...this.#counts, ...counts } }
      const held = await advanceRun(tx, this.run.id, this.worker, progress)
      if (held === 'lost') throw new RunLostError()
      // A cancellation that was requested before must not wait for approval.
      if (held === 'cancel-asked' && progress.status === 'needs_approval') throw new RunCancelledError()
      return { held, progress }
    })
    this.#status = reached.progress.status
    this.#counts = reached.progress.counts
    this.#diffHash = reached.progress.diffHash ?? this.#diffHash
    if (reached.held === 'cancel-asked' && !isFinal(this.#status)) throw new RunCancelledError()
  }
}
