import type { RequestInfo } from '@postern/service-kit'
import { problem } from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import { type Tx, allowLongStatements } from './store.ts'

/** Common to all routes of imports. Only the sync service calls them, as a connector. */
export const bySync = { method: 'POST', signedBy: ['sync-universe'], callers: ['service'] } as const

/** Larger than the requests of the sync service. */
export const maxRowsBytes = 24 * 1024 * 1024

/** Imports have their own connections, because their transactions are long. */
export type Imports = Pick<Deps, 'importDb'>

export async function write<T>(
  { importDb }: Imports,
  { assertion }: RequestInfo['context'],
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  return await importDb.write({ assertion }, work)
}

/** Returns a handler that does its work in one transaction, with long statements. */
export function inLongTransaction<Input extends Pick<RequestInfo, 'context'>, Answer>(
  deps: Imports,
  work: (tx: Tx, input: Input) => Promise<Answer>,
): (input: Input) => Promise<Answer> {
  return async (input) =>
    await write(deps, input.context, async (tx) => {
      await allowLongStatements(tx)
      return await work(tx, input)
    })
}

/** Returns the import. Throws 409 if a later attempt has it. */
export function assertCurrentAttempt<T>(found: T | undefined): T {
  if (found === undefined) throw problem('conflict', { detail: 'A later attempt has taken over the run.' })
  return found
}
