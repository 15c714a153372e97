import type { Run } from '@postern/contracts'
import { type AnswerKeeper, type RequestInfo, problem } from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import type { Deps } from '../deps.ts'
import { sqlError } from '../sql/store.ts'
import { actorOf } from './actor.ts'
import { type NewRun, getRun, insertRun } from './store.ts'

/** Inserts and queues a run, and answers with it. Throws 409 if another run of the connector is in progress. */
export async function enqueueRun(
  { db, queue }: Pick<Deps, 'db' | 'queue'>,
  { context, requestId, answer, keep }: Pick<RequestInfo, 'context' | 'requestId' | 'answer'> & AnswerKeeper,
  prepare: (tx: Tx) => Promise<Omit<NewRun, 'actor' | 'requestId'>>,
): Promise<Run> {
  const run = await db
    .write(context, async (tx) => {
      const id = await insertRun(tx, { ...(await prepare(tx)), actor: actorOf(context), requestId })
      await queue.sendRun(tx, context.tenantId, id)
      answer.header('location', `/api/v1/sync-runs/${id}`)
      return await keep(tx, await getRun(tx, id))
    })
    .catch(refuseSecondRun)
  queue.wake()
  return run
}

export function refuseSecondRun(error: unknown): never {
  if (sqlError(error).constraint === 'run_one_a_connector') {
    throw problem('run_in_progress', { detail: 'Another run of the connector is in progress.' })
  }
  throw error
}
