import { type ProblemError, type RequestInfo, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { ServiceUnavailableError } from '@postern/service-client'
import { beginTelling } from '../tell/store.ts'
import { isPushed } from './rules.ts'
import { findConnector, hasRunUnderWay } from './store.ts'

type Parts = Pick<Deps, 'db' | 'universe'>
type Request = Pick<RequestInfo, 'context' | 'requestId' | 'log'>

/** That the universe takes a connector for no source any more, before it is retired. */
export interface ToldRetired {
  /** The last telling that was begun of the connector. Whoever finds another has been overtaken: the universe may be told otherwise by now. */
  readonly telling: number
  /** Tells the universe that the connector is a source as before. To be called when it is not retired; tries it once. */
  takeBack(): Promise<void>
}

/**
 * Has the universe take the connector for no source any more, before it is retired: nobody would tell it later. Undefined where it
 * can be no source. Throws 409 while a run is under way, and 503 where the universe cannot be told: then it stays a source.
 */
export async function tellRetired(
  { db, universe }: Parts,
  { context, requestId, log }: Request,
  address: string,
): Promise<ToldRetired | undefined> {
  const begun = await db.write(context, async (tx) => {
    const connector = await findConnector(tx, address)
    if (connector?.dataset !== 'auditable_entities' || isPushed(connector)) return undefined
    if (await hasRunUnderWay(tx, connector.id)) throw busy()
    // The second is for taking it back: above the first, should that come late, and below whatever another begins meanwhile.
    const [first, second] = [await beginTelling(tx, connector.id), await beginTelling(tx, connector.id)]
    return { connectorId: connector.id, first, second }
  })
  if (begun === undefined) return undefined
  const { connectorId, first, second } = begun
  // One that has told nothing so far is no source.
  if (first === 1) return { telling: second, takeBack: async () => undefined }
  const { tenantId, assertion, label } = context
  const asker = { tenantId, assertion, runId: connectorId, connectorId, label, requestId }
  const tell = async (telling: number, retired: boolean): Promise<void> =>
    await universe.tellSources(asker, { telling, rows: [], read: null, retired })
  const takeBack = async (): Promise<void> =>
    await tell(second, false).catch((error: unknown) => {
      log.warn({ event: 'connector_not_taken_back', request_id: requestId, connector_id: connectorId, err: error })
    })
  try {
    await tell(first, true)
  } catch (error) {
    // Its answer may be all that was lost.
    await takeBack()
    if (!(error instanceof ServiceUnavailableError)) throw error
    const detail = 'The universe cannot be told that the connector is no source any more. Try again.'
    throw problem('service_unavailable', { detail, retryAfterSeconds: 5, cause: error })
  }
  return { telling: second, takeBack }
}

/** That a connector is not retired while a run of it is under way. */
export function busy(): ProblemError {
  return problem('run_in_progress', { detail: 'Cancel the run of the connector first.' })
}
