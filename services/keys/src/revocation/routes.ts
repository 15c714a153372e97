import { internalPaths, leaseReleaseSchema, leaseRequestSchema } from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { answerLease } from './lease.ts'
import { releaseLease } from './store.ts'

const gatewaysOnly = { method: 'POST', signedBy: ['internal'], callers: ['service'] } as const

export function leaseRoutes(app: App, { db, leaseWatch }: Pick<Deps, 'db' | 'leaseWatch'>): void {
  internalRoute(
    app,
    { ...gatewaysOnly, path: internalPaths.leases, body: leaseRequestSchema },
    async ({ body }) => await answerLease({ db, leaseWatch }, body),
  )

  internalRoute(
    app,
    { ...gatewaysOnly, path: internalPaths.releaseLease, body: leaseReleaseSchema },
    async ({ body, answer }) => {
      await db.system(async (tx) => await releaseLease(tx, body.gateway))
      leaseWatch.pollNow()
      answer.status(204)
    },
  )
}
