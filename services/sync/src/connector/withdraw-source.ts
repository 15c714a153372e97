import { type ProblemError, type RequestInfo, problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { ServiceUnavailableError } from '@postern/service-client'
import { importCallerOf } from '../push/import-caller.ts'
import { isPushed } from './rules.ts'
import { findConnector, hasRunUnderWay, nextUpdateNumber } from './store.ts'

type Parts = Pick<Deps, 'db' | 'universe'>
type Request = Pick<RequestInfo, 'context' | 'requestId' | 'log'>

export interface WithdrawnSource {
  /** A later run or update of the connector has a higher number. */
  readonly updateNumber: number
  /** Makes the connector a source again if it is not retired. Tries once. */
  undo(): Promise<void>
}

/** Withdraws a connector as a source of the universe. Undefined if it cannot be one. Throws 409 during a run, and 503. */
export async function withdrawSource(
  { db, universe }: Parts,
  { context, requestId, log }: Request,
  address: string,
): Promise<WithdrawnSource | undefined> {
  const begun = await db.write(context, async (tx) => {
    const connector = await findConnector(tx, address)
    if (connector === undefined || isPushed(connector)) return undefined
    if (await hasRunUnderWay(tx, connector.id)) throw runInProgress()
    const [first, second] = [await nextUpdateNumber(tx, connector.id), await nextUpdateNumber(tx, connector.id)]
    return { connectorId: connector.id, first, second }
  })
  if (begun === undefined) return undefined
  const { connectorId, first, second } = begun
  // The connector never had a run, so the universe does not know it.
  if (first === 1) return { updateNumber: second, undo: async () => undefined }
  const caller = importCallerOf({ context, requestId }, connectorId, connectorId)
  const setRetired = async (updateNumber: number, retired: boolean): Promise<void> =>
    await universe.retireSource(caller, { telling: updateNumber, retired })
  const undo = async (): Promise<void> =>
    await setRetired(second, false).catch((error: unknown) => {
      log.warn({
        event: 'connector_withdrawal_not_undone',
        request_id: requestId,
        connector_id: connectorId,
        err: error,
      })
    })
  try {
    await setRetired(first, true)
  } catch (error) {
    // The universe may have applied it and only the answer was lost.
    await undo()
    if (!(error instanceof ServiceUnavailableError)) throw error
    const detail = 'The universe service is unavailable, so the connector was not retired. Try again.'
    throw problem('service_unavailable', { detail, retryAfterSeconds: 5, cause: error })
  }
  return { updateNumber: second, undo }
}

export function runInProgress(): ProblemError {
  return problem('run_in_progress', { detail: 'Cancel the run of the connector first.' })
}
