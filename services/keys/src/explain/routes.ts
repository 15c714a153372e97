import { explainRequest } from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import { createRouteMatcher } from '@postern/service-kit/access'
import { findKey } from '../api-key/store.ts'
import type { Deps } from '../deps.ts'
import { findKeyRecord } from '../lookup/store.ts'
import { explainDecision } from './explain-decision.ts'

/** Registers the explanation of a decision, from the record that gateways decide with. */
export function explainRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  const match = createRouteMatcher()
  contractRoute(app, explainRequest, async ({ params, body, context }) => {
    const key = await db.read(context, async (tx) => await findKey(tx, params.id))
    if (key === undefined) throw problem('not_found')
    const { record, now } = await db.system(async (tx) => await findKeyRecord(tx, key.hash))
    if (record === undefined) throw problem('not_found')
    return explainDecision(body, record, now, match)
  })
}
