import type { ResourceAddress } from '@postern/contracts'
import { type Tx, addressLists, statement } from '@postern/tenant-db'

export async function listUnknownEntities(tx: Tx, ids: readonly string[]): Promise<string[]> {
  return (await tx.query<{ id: string }>(unknownEntities([ids]))).map(({ id }) => id)
}

export async function listUnknownTestProcedures(tx: Tx, ids: readonly string[]): Promise<string[]> {
  return (await tx.query<{ id: string }>(unknownTestProcedures([ids]))).map(({ id }) => id)
}

export async function listUnknownPeople(tx: Tx, ids: readonly string[]): Promise<string[]> {
  return (await tx.query<{ id: string }>(unknownPeople([ids]))).map(({ id }) => id)
}

/** Returns the id of each address, in order; null if there is none. */
export async function findEntityIds(tx: Tx, addresses: readonly ResourceAddress[]): Promise<(string | null)[]> {
  return idsOf(addresses, await tx.query<ReferencedRow>(entitiesAt(addressLists(addresses))))
}

export async function findTestProcedureIds(tx: Tx, addresses: readonly ResourceAddress[]): Promise<(string | null)[]> {
  return idsOf(addresses, await tx.query<ReferencedRow>(testProceduresAt(addressLists(addresses))))
}

interface ReferencedRow {
  readonly id: string
  readonly reference: string
  readonly external_id: string | null
}

function idsOf(addresses: readonly ResourceAddress[], rows: readonly ReferencedRow[]): (string | null)[] {
  const byReference = new Map(rows.map((row) => [row.reference, row.id]))
  const byExternalId = new Map(rows.map((row) => [row.external_id, row.id]))
  const ids = new Set(rows.map(({ id }) => id))
  return addresses.map((address) => {
    switch (address.by) {
      case 'id':
        return ids.has(address.id) ? address.id : null
      case 'reference':
        return byReference.get(address.reference) ?? null
      case 'external-id':
        return byExternalId.get(address.externalId) ?? null
      default:
        return address satisfies never
    }
  })
}

const at = `where t.id = any($1::uuid[]) or t.reference = any($2::text[]) or t.external_id = any($3::text[])`

const entitiesAt = statement(
  'universe_entities_at',
  `select t.id, t.reference, t.external_id from universe.entity t ${at}`,
)

const testProceduresAt = statement(
  'universe_test_procedures_at',
  `select t.id, t.reference, t.external_id from universe.test_procedure t ${at}`,
)

const unknownEntities = statement(
  'universe_unknown_entities',
  `select asked.id
  from unnest($1::uuid[]) as asked (id)
  where not exists (select 1 from universe.entity e where e.id = asked.id)`,
)

const unknownTestProcedures = statement(
  'universe_unknown_test_procedures',
  `select asked.id
  from unnest($1::uuid[]) as asked (id)
  where not exists (select 1 from universe.test_procedure t where t.id = asked.id)`,
)

const unknownPeople = statement(
  'universe_unknown_people',
  `select asked.id
  from unnest($1::uuid[]) as asked (id)
  where not exists (select 1 from universe.person p where p.id = asked.id)`,
)
