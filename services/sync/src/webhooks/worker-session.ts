import { parseAssertion } from '@postern/signed-context'
import { AssertionSource } from '../worker/run-lease.ts'
import { type TenantDb, acquireWork, isSuspended } from '../worker/store.ts'

export interface WorkerSession {
  readonly tenantId: string
  readonly isSuspended: boolean
  /** Valid for at least half a minute. */
  assertion(): Promise<string>
}

/** Takes over work that a tenant granted. Undefined if the tenant withdrew it. */
export async function openWorkerSession(db: TenantDb, workId: string): Promise<WorkerSession | undefined> {
  const worker = crypto.randomUUID()
  if (!(await db.system(async (tx) => await acquireWork(tx, workId, worker)))) return undefined
  const assertions = new AssertionSource(db, workId, worker)
  const tenantId = parseAssertion(await assertions.get())?.tenantId ?? ''
  const suspended = await db.system(async (tx) => await isSuspended(tx, workId, worker))
  return { tenantId, isSuspended: suspended, assertion: async () => await assertions.get() }
}
