import { getTestProcedure, listTestProcedures as listRoute, parseResourceAddress } from '@postern/contracts'
import {
  type LookupTestProceduresAnswer,
  internalPaths,
  lookupTestProceduresBodySchema,
} from '@postern/contracts/internal'
import {
  type App,
  type ContractInput,
  contractList,
  contractRoute,
  each,
  internalRoute,
  openPage,
  problem,
  wholeList,
} from '@postern/service-kit'
import type { Deps } from '../deps.ts'
import {
  type TestProcedureFilter,
  countTestProcedures,
  findTestProcedure,
  listTestProcedures,
  lookUpTestProcedures,
  testProcedureKeySchema,
} from './store.ts'

/** Listing and reading test procedures; telling the evidence service which ones are meant. */
export function testProcedureRoutes(app: App, { db }: Pick<Deps, 'db'>): void {
  contractList(app, listRoute, {
    page: async (input) => {
      const { sort, filter, page } = listOf(input)
      const [rows, total] = await db.read(input.context, async (tx) =>
        Promise.all([
          listTestProcedures(tx, filter, { sort, after: page.after, limit: page.limit + 1 }),
          page.wantsTotal ? countTestProcedures(tx, filter) : undefined,
        ]),
      )
      if (total !== undefined) page.total(total)
      return page.finish(rows, ({ key }) => key).map(({ procedure }) => procedure)
    },
    all: (input) => {
      const { sort, filter, page } = listOf(input)
      const rows = wholeList(db, input.context, {
        after: page.after,
        size: exportBatch,
        list: async (tx, after, limit) => listTestProcedures(tx, filter, { sort, after, limit }),
        keyOf: ({ key }) => key,
      })
      return each(rows, ({ procedure }) => procedure)
    },
  })

  contractRoute(app, getTestProcedure, async ({ params, context, answer }) => {
    const procedure = await db.read(context, async (tx) => findTestProcedure(tx, parseResourceAddress(params.id)))
    if (procedure === undefined) throw problem('not_found')
    // Evidence is attached without a new version.
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

/** Test procedures that an export holds in memory at a time. */
const exportBatch = 250

function listOf(input: ContractInput<typeof listRoute>) {
  const { query } = input
  const { sort } = query
  const filter: TestProcedureFilter = {
    status: query.status,
    method: query.method,
    testType: query.test_type,
    conclusion: query.conclusion,
    entityIds: query.entity_id,
    engagementRef: query.engagement_ref,
    controlRef: query.control_ref,
    dueBefore: query.due_before,
    dueAfter: query.due_after,
    externalId: query.external_id,
    updatedSince: query.updated_since,
    search: query.q,
  }
  return { sort, filter, page: openPage(input, listRoute, testProcedureKeySchema(sort)) }
}
