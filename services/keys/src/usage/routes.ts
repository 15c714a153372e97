import { getApiKeyUsage } from '@postern/contracts'
import { internalPaths, maxRefusalsTogether, maxUsageTogether, usageReportSchema } from '@postern/contracts/internal'
import { type App, contractRoute, internalRoute, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { recordPeople } from '../member/store.ts'
import { rightSize } from '../right-sizing/right-size.ts'
import { findScopeUse } from '../right-sizing/store.ts'
import { recordSignIns } from '../sign-in/store.ts'
import { countOtherRefusals, countRefusals, listLastRefusals, listReasonsOfRefusals } from './refusals.ts'
import {
  canNeverBeStored,
  countDroppedAddresses,
  listAddressesOfUse,
  listDaysOfUse,
  listRoutesOfUse,
  recordDenials,
  recordUses,
} from './store.ts'

/** A full report of 20,000 lines takes about 5 MB. */
const maxBodyBytes = 8 * 1024 * 1024

export function usageRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.usage,
      body: usageReportSchema,
      maxBodyBytes,
      signedBy: ['internal'],
      callers: ['service'],
    },
    async ({ body, answer }) => {
      try {
        for (const uses of batches(body.uses)) await db.system(async (tx) => await recordUses(tx, uses))
        for (const denials of batches(body.denials)) await db.system(async (tx) => await recordDenials(tx, denials))
        for (const refusals of batches(body.refusals ?? [], maxRefusalsTogether)) {
          await db.system(async (tx) => await countRefusals(tx, refusals))
        }
        for (const people of batches(body.people ?? [])) await db.system(async (tx) => await recordPeople(tx, people))
        for (const some of batches(body.signIns ?? [])) await db.system(async (tx) => await recordSignIns(tx, some))
      } catch (cause) {
        // The gateway then drops the invalid line, which would otherwise block the reports of all tenants.
        if (!canNeverBeStored(cause)) throw cause
        throw problem('invalid_content', {
          detail: 'The report contains a line that cannot be stored. Remove it and send the report again.',
          cause,
        })
      }
      answer.status(204)
    },
  )

  contractRoute(app, getApiKeyUsage, async ({ params, context }) => {
    const [scopeUse, days, routes, addresses, dropped, refused, other, last] = await db.read(
      context,
      async (tx) =>
        await Promise.all([
          findScopeUse(tx, params.id),
          listDaysOfUse(tx, params.id),
          listRoutesOfUse(tx, params.id),
          listAddressesOfUse(tx, params.id),
          countDroppedAddresses(tx, params.id),
          listReasonsOfRefusals(tx, params.id),
          countOtherRefusals(tx, params.id),
          listLastRefusals(tx, params.id),
        ]),
    )
    if (scopeUse === undefined) throw problem('not_found')
    return {
      days,
      routes,
      addresses,
      addresses_dropped: dropped,
      refused,
      other_refusals: other,
      last_refusals: last,
      right_sizing: rightSize(scopeUse, routes),
    }
  })
}

function* batches<T>(list: readonly T[], most = maxUsageTogether): Generator<T[]> {
  for (let at = 0; at < list.length; at += most) yield list.slice(at, at + most)
}
