import { getRun, listRunChanges, listRunErrors, listRuns, uuidSchema } from '@postern/contracts'
import {
  type App,
  type ContractInput,
  contractList,
  contractRoute,
  openPage,
  problem,
  storedList,
} from '@postern/service-kit'
import type { Tx } from '@postern/tenant-db'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { digestOf } from '../digest.ts'
import { callUniverse, streamUniverse } from '../import/call-universe.ts'
import { type ImportCaller, importCallerOf } from '../push/import-caller.ts'
import { countErrors, listErrors } from './error-store.ts'
import { type RunFilter, countRuns, findRun, listRuns as listStored } from './store.ts'

export function runRoutes(app: App, { db, universe }: Pick<Deps, 'db' | 'universe'>): void {
  storedList(app, listRuns, {
    source: db,
    key: () => uuidSchema,
    asked: ({ query }): RunFilter => ({ connector: query.connector, statuses: query.status }),
    list: async (tx, filter, { after, limit }) => await listStored(tx, filter, after, limit),
    count: countRuns,
    keyOf: ({ id }) => id,
    show: (run) => run,
  })

  contractRoute(app, getRun, async ({ params, context, answer }) => {
    const found = await db.read(context, async (tx) => await findRun(tx, params.id))
    if (found === undefined) throw problem('not_found')
    // Not the revision, because the response also contains its connector.
    answer.etag(`"${params.id}.${digestOf(found.run)}"`)
    return found.run
  })

  const callerOfRun = async ({
    params,
    context,
    requestId,
  }: ContractInput<typeof listRunChanges>): Promise<ImportCaller> => {
    const isThere = await db.read(context, async (tx) => await hasRun(tx, params.id))
    if (!isThere) throw problem('not_found')
    return importCallerOf({ context, requestId }, params.id)
  }
  contractList(app, listRunChanges, {
    page: async (input) => {
      const page = openPage(input, listRunChanges, seqKey)
      const caller = await callerOfRun(input)
      const body = {
        after: page.after ?? 0,
        limit: page.limit + 1,
        ops: input.query.op ?? null,
        count: page.wantsTotal,
      }
      const { changes, after, total } = await callUniverse(async () => await universe.imports.changes(caller, body))
      if (total !== null) page.total(total)
      return page.finish(changes, ({ seq }) => seq, after ?? undefined)
    },
    all: async function* (input) {
      const page = openPage(input, listRunChanges, seqKey)
      const body = { after: page.after ?? 0, ops: input.query.op ?? null }
      yield* streamUniverse(universe.imports.exportChanges(await callerOfRun(input), body))
    },
  })

  storedList(app, listRunErrors, {
    source: db,
    key: () => seqKey,
    asked: ({ params }) => ({ id: params.id }),
    isThere: async (tx, { id }) => await hasRun(tx, id),
    list: async (tx, { id }, { after, limit }) => await listErrors(tx, id, after, limit),
    count: async (tx, { id }) => await countErrors(tx, id),
    keyOf: ({ seq }) => seq,
    show: (error) => error,
  })
}

async function hasRun(tx: Tx, id: string): Promise<boolean> {
  return (await findRun(tx, id)) !== undefined
}

const seqKey = z.int().min(0).max(2_147_483_647)
