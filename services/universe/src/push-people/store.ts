import type { PushedPerson } from '@postern/contracts'
import type { ApplyEntitiesAnswer } from '@postern/contracts/internal'
import type { Tx } from '@postern/tenant-db'
import { compareAsSets, statement } from '../list/store.ts'
import { maxFaults } from '../push/rules.ts'
import { lockTree } from '../push/store.ts'

export type { Tx } from '@postern/tenant-db'

/** Makes the transaction the only one that changes the tenant's people, until it ends. */
export async function lockPeople(tx: Tx): Promise<void> {
  // The one lock of a tenant that pushes of several kinds share: they are rare, and short.
  await Promise.all([lockTree(tx), compareAsSets(tx)])
}

/** Rows whose address a stored person has whom the push does not speak of; the first of them. */
export async function listTakenEmails(
  tx: Tx,
  people: readonly PushedPerson[],
): Promise<{ readonly index: number; readonly holder: string }[]> {
  return await tx.query<{ index: number; holder: string }>(takenEmails([asJson(people), maxFaults]))
}

/** Makes the people who are new and changes those who differ. Call it under the lock, with addresses that are free. */
export async function applyPeople(tx: Tx, people: readonly PushedPerson[]): Promise<ApplyEntitiesAnswer> {
  const [counts] = await tx.query<{ created: number; updated: number }>(apply([asJson(people)]))
  const { created, updated } = counts ?? { created: 0, updated: 0 }
  return { created, updated, unchanged: people.length - created - updated }
}

function asJson(people: readonly PushedPerson[]): string {
  return JSON.stringify(people.map((person, index) => ({ ...person, email: person.email?.toLowerCase(), index })))
}

// person_email_unique and person_external_id_unique, once a row.
const takenEmails = statement(
  'universe_taken_emails',
  `select pushed.index, holder.external_id as holder
  from jsonb_to_recordset($1::jsonb) as pushed (index integer, external_id text, email text)
  join universe.person holder on holder.email = pushed.email
  where holder.external_id <> pushed.external_id
    and holder.external_id not in (
      select other.external_id from jsonb_to_recordset($1::jsonb) as other (external_id text)
    )
  order by pushed.index
  limit $2`,
)

// A row is matched by person_external_id_unique. A row that is as it was is not written. person_email_unique is asked at
// the end of the statement, so that addresses can change hands within it.
const apply = statement(
  'universe_apply_people',
  `with incoming as materialized (
    select pushed.*, coalesce(known.id, uuidv7()) as id, known.id is null as is_new
    from jsonb_to_recordset($1::jsonb) as pushed (
      index integer, external_id text, name text, email text, title text, active boolean
    )
    left join universe.person known on known.external_id = pushed.external_id
  ),
  made as (
    insert into universe.person (tenant_id, id, external_id, name, email, title, active)
    select (select tenancy.tenant_id()), i.id, i.external_id, i.name, i.email, i.title, i.active
    from incoming i
    where i.is_new
    order by i.index
    returning 1 as one
  ),
  changed as (
    update universe.person p
    set
      name = i.name, email = i.email, title = i.title, active = i.active, updated_at = now(), version = p.version + 1
    from incoming i
    where not i.is_new and p.id = i.id
      and (p.name, p.email, p.title, p.active) is distinct from (i.name, i.email, i.title, i.active)
    returning 1 as one
  )
  select
    (select count(*)::integer from made) as created,
    (select count(*)::integer from changed) as updated`,
)
