import type { ResourceAddress, TestProcedure, testProcedureSorts } from '@postern/contracts'
import { type ResourceRow, type Tx, addressLists, addressValues, statement, toResource } from '@postern/tenant-db'
import type { z } from 'zod'
import { type ListKey, dayOrNull, listStatements, timeOrInfinity } from '../list/store.ts'

export type TestProcedureSort = (typeof testProcedureSorts)[number]

export interface TestProcedureFilter {
  readonly status: readonly string[] | undefined
  readonly method: readonly string[] | undefined
  readonly testType: readonly string[] | undefined
  readonly conclusion: readonly string[] | undefined
  readonly entityIds: readonly string[] | undefined
  readonly engagementRef: readonly string[] | undefined
  readonly controlRef: readonly string[] | undefined
  readonly dueBefore: string | undefined
  readonly dueAfter: string | undefined
  readonly externalId: readonly string[] | undefined
  readonly updatedSince: string | undefined
  readonly search: string | undefined
}

export interface ListedTestProcedure {
  readonly procedure: TestProcedure
  readonly key: ListKey
}

export function testProcedureKeySchema(sort: TestProcedureSort): z.ZodType<ListKey> {
  return list.keySchema(sort)
}

export async function listTestProcedures(
  tx: Tx,
  filter: TestProcedureFilter,
  page: { readonly sort: TestProcedureSort; readonly after: ListKey | undefined; readonly limit: number },
): Promise<ListedTestProcedure[]> {
  const rows = await tx.query<Row>(list.page(page.sort, filterValues(filter), page.after, page.limit))
  return rows.map((row) => ({ procedure: toProcedure(row), key: keyOf(row, page.sort) }))
}

export async function countTestProcedures(tx: Tx, filter: TestProcedureFilter): Promise<number> {
  const rows = await tx.query<{ total: number }>(list.count(filterValues(filter)))
  return rows[0]?.total ?? 0
}

export async function findTestProcedure(tx: Tx, address: ResourceAddress): Promise<TestProcedure | undefined> {
  const [row] = await tx.query<Row>(find(addressValues(address)))
  return row === undefined ? undefined : toProcedure(row)
}

/** Finds the id and status of the test procedure at each address. Null if there is none. */
export async function lookUpTestProcedures(
  tx: Tx,
  addresses: readonly ResourceAddress[],
): Promise<(Pick<TestProcedure, 'id' | 'status'> | null)[]> {
  const rows = await tx.query<Pick<TestProcedure, 'id' | 'reference' | 'external_id' | 'status'>>(
    lookUp(addressLists(addresses)),
  )
  return addresses.map((address) => {
    const found = rows.find((row) => {
      switch (address.by) {
        case 'id':
          return row.id === address.id
        case 'reference':
          return row.reference === address.reference
        case 'external-id':
          return row.external_id === address.externalId
        default:
          return address satisfies never
      }
    })
    return found === undefined ? null : { id: found.id, status: found.status }
  })
}

type Row = ResourceRow<TestProcedure> & { readonly number: number }

function toProcedure({ number: _number, ...row }: Row): TestProcedure {
  return toResource(row)
}

function keyOf(row: Row, sort: TestProcedureSort): ListKey {
  const tie = row.number
  switch (sort) {
    case 'reference':
    case '-reference':
      return { value: tie, tie }
    case 'title':
    case '-title':
      return { value: row.title, tie }
    case 'updated_at':
    case '-updated_at':
      return { value: row.updated_at.toISOString(), tie }
    case 'due_date':
    case '-due_date':
      return { value: row.due_date ?? 'infinity', tie }
    default:
      return sort satisfies never
  }
}

function filterValues(filter: TestProcedureFilter): readonly unknown[] {
  return [
    filter.status ?? null,
    filter.method ?? null,
    filter.testType ?? null,
    filter.conclusion ?? null,
    filter.entityIds ?? null,
    filter.engagementRef ?? null,
    filter.controlRef ?? null,
    dayOrNull(filter.dueBefore),
    dayOrNull(filter.dueAfter),
    filter.externalId ?? null,
    timeOrInfinity(filter.updatedSince),
    filter.search ?? null,
  ]
}

const columns = `
  t.number, t.id, t.reference, t.external_id, t.title, t.control_ref, t.objective, t.procedure_text, t.method,
  t.test_type, t.entity_ids, t.engagement_ref, t.period_start_on as period_start, t.period_end_on as period_end,
  t.population_size, t.sample_size, t.tester, t.reviewer, t.due_on as due_date, t.status, t.conclusion, t.custom,
  coalesce((
    select c.links from tenancy.link_count c
    where c.tenant_id = t.tenant_id and c.kind = 'evidence' and c.resource_id = t.id
  ), 0) as evidence_count,
  t.created_by_type, t.created_by_id, t.created_by_label, t.created_at, t.updated_at, t.version`

const list = listStatements({
  name: 'universe_test_procedures',
  columns,
  from: 'universe.test_procedure t',
  where: `
    ($1::text[] is null or t.status = any($1::text[]))
    and ($2::text[] is null or t.method = any($2::text[]))
    and ($3::text[] is null or t.test_type = any($3::text[]))
    and ($4::text[] is null or t.conclusion = any($4::text[]))
    and (
      $5::uuid[] is null
      or t.id in (
        select link.test_procedure_id from universe.test_procedure_entity link where link.entity_id = any($5::uuid[])
      )
    )
    and ($6::text[] is null or t.engagement_ref = any($6::text[]))
    and ($7::text[] is null or t.control_ref = any($7::text[]))
    and ($8::date is null or t.due_on < $8::date)
    and ($9::date is null or t.due_on > $9::date)
    and ($10::text[] is null or t.external_id = any($10::text[]))
    and t.updated_at >= $11::timestamptz
    and (
      $12::text is null
      or strpos(
        lower(concat_ws(' ', t.reference, t.external_id, t.title, t.control_ref, t.objective, t.procedure_text)),
        lower($12::text)
      ) > 0
    )`,
  filters: 12,
  sorts: {
    reference: { expression: 't.number', type: 'integer' },
    title: { expression: 't.title', type: 'text' },
    updated_at: { expression: 't.updated_at', type: 'timestamptz' },
    due_date: { expression: "coalesce(t.due_on, date 'infinity')", type: 'date' },
  },
  tie: { column: 't.number', type: 'integer' },
})

const find = statement(
  'universe_find_test_procedure',
  `select ${columns}
  from universe.test_procedure t
  where t.id = $1::uuid or t.reference = $2::text or t.external_id = $3::text`,
)

const lookUp = statement(
  'universe_look_up_test_procedures',
  `select t.id, t.reference, t.external_id, t.status
  from universe.test_procedure t
  where t.id = any($1::uuid[]) or t.reference = any($2::text[]) or t.external_id = any($3::text[])`,
)
