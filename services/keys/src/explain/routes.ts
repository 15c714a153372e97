import { explainRequest } from '@postern/contracts'
import { type App, contractRoute, problem } from '@postern/service-kit'
import { createRouteMatcher } from '@postern/service-kit/access'
import { findKey } from '../api-key/store.ts'
import type { Deps } from '../deps.ts'
import { findKeyRecord } from '../lookup/store.ts'
import { findLastAddress, findRefusal } from '../usage/refusals.ts'
import { explainDecision } from './explain-decision.ts'
import { explainRefusal } from './explain-refusal.ts'

export function explainRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  const match = createRouteMatcher()
  contractRoute(app, explainRequest, async ({ params, body, context }) => {
    const { request_id: requestId, method = 'GET', path = '', address: named } = body
    const [key, refusal, last] = await db.read(
      context,
      async (tx) =>
        await Promise.all([
          findKey(tx, params.id),
          requestId === undefined ? undefined : findRefusal(tx, params.id, requestId),
          named === undefined && requestId === undefined ? findLastAddress(tx, params.id) : undefined,
        ]),
    )
    if (key === undefined) throw problem('not_found')
    if (requestId !== undefined && refusal === undefined) {
      throw problem('not_found', {
        detail:
          'No refusal has this request id. Gateways report refusals every ten seconds, and the last 100 of each key are stored.',
      })
    }
    const { record, now } = await db.system(async (tx) => await findKeyRecord(tx, key.hash))
    if (record === undefined) throw problem('not_found')
    if (refusal !== undefined) return explainRefusal(refusal, record, now)
    const address = named ?? last
    const decision = explainDecision({ method, path, address, isLast: named === undefined }, record, now, match)
    return { ...decision, address: address ?? null, refusal: null, now: null }
  })
}
