import type { Person, ResourceAddress, personSorts } from '@postern/contracts'
import { type Tx, statement } from '@postern/tenant-db'
import { type IdentifiedPerson, maxIdentifiedPeople } from '@postern/contracts/internal'
import { z } from 'zod'
import { type ListKey, listStatements, timeOrInfinity } from '../list/store.ts'

export type PersonSort = (typeof personSorts)[number]

export interface PersonFilter {
  readonly email: readonly string[] | undefined
  readonly active: boolean | undefined
  readonly externalId: readonly string[] | undefined
  readonly updatedSince: string | undefined
  readonly search: string | undefined
}

export interface ListedPerson {
  readonly person: Person
  readonly key: ListKey
}

export function personKeySchema(sort: PersonSort): z.ZodType<ListKey> {
  return list.keySchema(sort)
}

export async function listPeople(
  tx: Tx,
  filter: PersonFilter,
  page: { readonly sort: PersonSort; readonly after: ListKey | undefined; readonly limit: number },
): Promise<ListedPerson[]> {
  const rows = await tx.query<Row>(list.page(page.sort, filterValues(filter), page.after, page.limit))
  return rows.map((row) => {
    const person = toPerson(row)
    const byName = page.sort === 'name' || page.sort === '-name'
    return { person, key: { value: byName ? person.name : person.updated_at, tie: person.id } }
  })
}

/** People have no references. */
export async function findPerson(tx: Tx, address: ResourceAddress): Promise<Person | undefined> {
  const [row] = await tx.query<Row>(
    find([address.by === 'id' ? address.id : null, address.by === 'external-id' ? address.externalId : null]),
  )
  return row === undefined ? undefined : toPerson(row)
}

export async function lookUpPeople(
  tx: Tx,
  emails: readonly string[],
): Promise<{ readonly email: string; readonly person_id: string }[]> {
  return await tx.query(lookUp([emails.map((email) => email.toLowerCase())]))
}

/** Finds people with one of the texts as id, e-mail address or name. Undefined if there are too many. */
export async function identifyPeople(tx: Tx, texts: readonly string[]): Promise<IdentifiedPerson[] | undefined> {
  const ids = texts.flatMap((text) => z.uuid().safeParse(text).data ?? [])
  const people = await tx.query<IdentifiedPerson>(identify([ids, texts, maxIdentifiedPeople + 1]))
  return people.length > maxIdentifiedPeople ? undefined : people
}

export async function countPeople(tx: Tx, filter: PersonFilter): Promise<number> {
  const rows = await tx.query<{ total: number }>(list.count(filterValues(filter)))
  return rows[0]?.total ?? 0
}

interface Row extends Omit<Person, 'updated_at'> {
  readonly updated_at: Date
}

function toPerson(row: Row): Person {
  return { ...row, updated_at: row.updated_at.toISOString() }
}

function filterValues({ email, active, externalId, updatedSince, search }: PersonFilter): readonly unknown[] {
  return [
    email?.map((address) => address.toLowerCase()) ?? null,
    active ?? null,
    externalId ?? null,
    timeOrInfinity(updatedSince),
    search ?? null,
  ]
}

const columns = 'p.id, p.external_id, p.name, p.email, p.title, p.active, p.updated_at, p.version'

const list = listStatements({
  name: 'universe_people',
  columns,
  from: 'universe.person p',
  where: `
    ($1::text[] is null or p.email = any($1::text[]))
    and ($2::boolean is null or p.active = $2::boolean)
    and ($3::text[] is null or p.external_id = any($3::text[]))
    and p.updated_at >= $4::timestamptz
    and (
      $5::text is null
      or strpos(lower(concat_ws(' ', p.external_id, p.name, p.email, p.title)), lower($5::text)) > 0
    )`,
  filters: 5,
  sorts: {
    name: { expression: 'p.name', type: 'text' },
    updated_at: { expression: 'p.updated_at', type: 'timestamptz' },
  },
  tie: { column: 'p.id', type: 'uuid' },
})

const find = statement(
  'universe_find_person',
  `select ${columns} from universe.person p where p.id = $1::uuid or p.external_id = $2::text`,
)

const lookUp = statement(
  'universe_look_up_people',
  'select p.email, p.id as person_id from universe.person p where p.email = any($1::text[])',
)

// Served by person_pk, person_email_unique and person_by_folded_name.
const identify = statement(
  'universe_identify_people',
  `with found as (
    select p.id, p.email, p.name, p.folded_name
    from universe.person p
    where p.id = any($1::uuid[])
      or p.email = any(array(select lower(asked) from unnest($2::text[]) as asked))
      or p.folded_name = any(array(select lower(asked) from unnest($2::text[]) as asked))
    limit $3
  )
  select found.id as person_id, found.email, found.name, not exists (
      select
      from universe.person p
      where p.folded_name = found.folded_name and p.id <> found.id
    ) as is_only_one
  from found`,
)
