import { type Tx, statement } from '@postern/tenant-db'

export async function listUnknownEntities(tx: Tx, ids: readonly string[]): Promise<string[]> {
  return (await tx.query<{ id: string }>(unknownEntities([ids]))).map(({ id }) => id)
}

export async function listUnknownTestProcedures(tx: Tx, ids: readonly string[]): Promise<string[]> {
  return (await tx.query<{ id: string }>(unknownTestProcedures([ids]))).map(({ id }) => id)
}

export async function listUnknownPeople(tx: Tx, ids: readonly string[]): Promise<string[]> {
  return (await tx.query<{ id: string }>(unknownPeople([ids]))).map(({ id }) => id)
}

// entity_pk
const unknownEntities = statement(
  'universe_unknown_entities',
  `select asked.id
  from unnest($1::uuid[]) as asked (id)
  where not exists (select 1 from universe.entity e where e.id = asked.id)`,
)

// test_procedure_pk
const unknownTestProcedures = statement(
  'universe_unknown_test_procedures',
  `select asked.id
  from unnest($1::uuid[]) as asked (id)
  where not exists (select 1 from universe.test_procedure t where t.id = asked.id)`,
)

// person_pk
const unknownPeople = statement(
  'universe_unknown_people',
  `select asked.id
  from unnest($1::uuid[]) as asked (id)
  where not exists (select 1 from universe.person p where p.id = asked.id)`,
)
