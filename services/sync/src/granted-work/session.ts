import { parseAssertion } from '@postern/signed-context'
import type { TenantDb } from '@postern/tenant-db'
import { acquireWork, isSuspended, issueAssertion } from './store.ts'

export interface WorkerSession {
  readonly tenantId: string
  readonly isSuspended: boolean
  /** Reads it again, because a tenant may be suspended meanwhile. */
  checkSuspended(): Promise<boolean>
  /** Returns an assertion that is valid for at least half a minute. */
  assertion(): Promise<string>
}

/** Takes over work that a tenant granted. Undefined if the tenant withdrew it. */
export async function openWorkerSession(db: TenantDb, workId: string): Promise<WorkerSession | undefined> {
  const worker = crypto.randomUUID()
  if (!(await db.system(async (tx) => await acquireWork(tx, workId, worker)))) return undefined
  const assertions = new AssertionSource(db, workId, worker)
  const { tenantId } = await assertions.getWithTenant()
  const checkSuspended = async (): Promise<boolean> =>
    await db.system(async (tx) => await isSuspended(tx, workId, worker))
  return {
    tenantId,
    isSuspended: await checkSuspended(),
    checkSuspended,
    assertion: async () => await assertions.get(),
  }
}

interface TenantAssertion {
  readonly tenantId: string
  readonly assertion: string
}

/** Half of the lifetime of an assertion in milliseconds, so that it outlives its statement. */
const renewAfterMs = 30_000

/** Assertions for one job, each used for half of its lifetime. */
export class AssertionSource {
  readonly #db: TenantDb
  readonly #workId: string
  readonly #worker: string
  #current: (TenantAssertion & { readonly issuedAt: number }) | undefined

  constructor(db: TenantDb, workId: string, worker: string) {
    this.#db = db
    this.#workId = workId
    this.#worker = worker
  }

  async get(): Promise<string> {
    return (await this.getWithTenant()).assertion
  }

  async getWithTenant(): Promise<TenantAssertion> {
    const now = performance.now()
    if (this.#current !== undefined && now - this.#current.issuedAt < renewAfterMs) return this.#current
    const assertion = await this.#db.system(async (tx) => await issueAssertion(tx, this.#workId, this.#worker))
    const tenantId = parseAssertion(assertion)?.tenantId
    if (tenantId === undefined) throw new Error('the issued assertion cannot be parsed')
    this.#current = { assertion, tenantId, issuedAt: now }
    return this.#current
  }
}
