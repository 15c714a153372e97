import { getTestProcedure, listTestProcedures as listRoute, parseResourceAddress } from '@postern/contracts'
import {
  type LookupTestProceduresAnswer,
  internalPaths,
  lookupTestProceduresBodySchema,
} from '@postern/contracts/internal'
import { type App, type ContractInput, contractRoute, internalRoute, problem, storedList } from '@postern/service-kit'
import { findChangedFrom, findFeedMark } from '../updated-since/store.ts'
import type { Deps } from '../deps.ts'
import { findEntityIds } from '../reference/store.ts'
import {
  type TestProcedureFilter,
  countTestProcedures,
  findTestProcedure,
  listTestProcedures,
  lookUpTestProcedures,
  testProcedureKeySchema,
} from './store.ts'

export function testProcedureRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  storedList(app, listRoute, {
    source: db,
    exportBatch,
    key: ({ query }) => testProcedureKeySchema(query.sort),
    asked: async (input) => {
      const { context, query } = input
      const addresses = query.entity_id?.map(parseResourceAddress)
      const ids = addresses && (await db.read(context, async (tx) => findEntityIds(tx, addresses)))
      const entityIds = ids?.flatMap((id) => id ?? [])
      return listOf(input, entityIds, await findChangedFrom(db, context, query.updated_since))
    },
    mark: findFeedMark,
    list: async (tx, { filter, sort }, place) => await listTestProcedures(tx, filter, { sort, ...place }),
    count: async (tx, { filter }) => await countTestProcedures(tx, filter),
    keyOf: ({ key }) => key,
    show: ({ procedure }) => procedure,
  })

  contractRoute(app, getTestProcedure, async ({ params, context, answer }) => {
    const procedure = await db.read(context, async (tx) => findTestProcedure(tx, parseResourceAddress(params.id)))
    if (procedure === undefined) throw problem('not_found')
    // Attaching evidence creates no version.
    answer.etag(`"${procedure.version}.${procedure.evidence_count}"`)
    return procedure
  })

  internalRoute(
    app,
    {
      method: 'POST',
      path: internalPaths.lookupTestProcedures,
      body: lookupTestProceduresBodySchema,
      signedBy: ['evidence-universe'],
      callers: ['service'],
    },
    async ({ body: { addresses }, context }): Promise<LookupTestProceduresAnswer> => ({
      test_procedures: await db.read(context, async (tx) =>
        lookUpTestProcedures(tx, addresses.map(parseResourceAddress)),
      ),
    }),
  )
}

const exportBatch = 250

function listOf(
  { query }: ContractInput<typeof listRoute>,
  entityIds: readonly string[] | undefined,
  updatedSince: string | undefined,
) {
  const { sort } = query
  const filter: TestProcedureFilter = {
    status: query.status,
    method: query.method,
    testType: query.test_type,
    conclusion: query.conclusion,
    entityIds,
    engagementRef: query.engagement_ref,
    controlRef: query.control_ref,
    dueBefore: query.due_before,
    dueAfter: query.due_after,
    externalId: query.external_id,
    updatedSince,
    search: query.q,
  }
  return { sort, filter }
}
