import {
  type KeyRecord,
  type PersonRecord,
  type TenantRecord,
  internalPaths,
  lookupsRequestSchema,
  personLookupRequestSchema,
  tenantLookupRequestSchema,
} from '@postern/contracts/internal'
import { type App, internalRoute } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { findKeyRecords, findPersonRecord, findTenantRecord } from './store.ts'

const gatewaysOnly = { method: 'POST', signedBy: ['internal'], callers: ['service'] } as const

/** Registers look-ups for gateways that lack a key, tenant or person in their caches. */
export function lookupRoutes(app: App, { db, cache }: Pick<Deps, 'db' | 'cache'>): void {
  internalRoute(
    app,
    { ...gatewaysOnly, path: internalPaths.lookupKeys, body: lookupsRequestSchema },
    async ({ body }): Promise<{ records: (KeyRecord | null)[]; now: number }> => {
      const { records, now } = await db.system(async (tx) => await findKeyRecords(tx, body.hashes))
      // Unknown hashes are not stored, because anyone can invent them.
      for (const record of records) if (record !== undefined) cache.store(record)
      return { records: records.map((record) => record ?? null), now }
    },
  )

  internalRoute(
    app,
    { ...gatewaysOnly, path: internalPaths.lookupTenant, body: tenantLookupRequestSchema },
    async ({ body }): Promise<{ record: TenantRecord | null; now: number }> => {
      const { record, now } = await db.system(async (tx) => await findTenantRecord(tx, body))
      return { record: record ?? null, now }
    },
  )

  internalRoute(
    app,
    { ...gatewaysOnly, path: internalPaths.lookupPerson, body: personLookupRequestSchema },
    async ({ body }): Promise<{ record: PersonRecord; now: number }> =>
      await db.system(async (tx) => await findPersonRecord(tx, body)),
  )
}
