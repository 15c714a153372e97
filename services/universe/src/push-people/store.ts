import type { PushedPerson } from '@postern/contracts'
import type { ApplyEntitiesAnswer } from '@postern/contracts/internal'
import { type Tx, statement } from '@postern/tenant-db'
import { compareAsSets } from '../list/store.ts'
import { maxFaults } from '../push/rules.ts'
import { lockTree } from '../push/store.ts'

export type { Tx } from '@postern/tenant-db'

export async function lockPeople(tx: Tx): Promise<void> {
  // Pushes of several kinds share this lock, because they are rare and short.
  await Promise.all([lockTree(tx), compareAsSets(tx)])
}

/** Lists rows whose address another active person has, who is not part of the push. */
export async function listTakenEmails(
  tx: Tx,
  people: readonly PushedPerson[],
): Promise<{ readonly index: number; readonly holder: string }[]> {
  return await tx.query<{ index: number; holder: string }>(takenEmails([asJson(people), maxFaults]))
}

/**
 * An active row takes its address from an inactive person. Call it under the lock, after
 * `listTakenEmails` has returned nothing.
 */
export async function applyPeople(tx: Tx, people: readonly PushedPerson[]): Promise<ApplyEntitiesAnswer> {
  const [counts] = await tx.query<{ created: number; updated: number }>(apply([asJson(people)]))
  const { created, updated } = counts ?? { created: 0, updated: 0 }
  return { created, updated, unchanged: people.length - created - updated }
}

function asJson(people: readonly PushedPerson[]): string {
  return JSON.stringify(people.map((person, index) => ({ ...person, email: person.email?.toLowerCase(), index })))
}

const takenEmails = statement(
  'universe_taken_emails',
  `select pushed.index, holder.external_id as holder
  from jsonb_to_recordset($1::jsonb) as pushed (index integer, external_id text, email text, active boolean)
  join universe.person holder on holder.email = pushed.email and holder.active
  where pushed.active
    and holder.external_id <> pushed.external_id
    and holder.external_id not in (
      select other.external_id from jsonb_to_recordset($1::jsonb) as other (external_id text)
    )
  order by pushed.index
  limit $2`,
)

// The unique index is checked at the end, so that addresses can change owners. Among rows with one address, the active one gets it,
// else its owner, else the first.
const apply = statement(
  'universe_apply_people',
  `with pushed as materialized (
    select given.*, coalesce(known.id, uuidv7()) as id, known.id is null as is_new,
      coalesce(known.email = given.email, false) as has_email
    from jsonb_to_recordset($1::jsonb) as given (
      index integer, external_id text, name text, email text, title text, active boolean
    )
    left join universe.person known on known.external_id = given.external_id
  ),
  outsider as (
    select holder.id, holder.email
    from universe.person holder
    where holder.email in (select pushed.email from pushed) and holder.id not in (select pushed.id from pushed)
  ),
  claim as (
    select distinct on (pushed.email) pushed.email, pushed.index,
      pushed.active or not exists (select from outsider where outsider.email = pushed.email) as is_granted
    from pushed
    where pushed.email is not null
    order by pushed.email, pushed.active desc, pushed.has_email desc, pushed.index
  ),
  incoming as materialized (
    select pushed.index, pushed.id, pushed.external_id, pushed.name, granted.email, pushed.title, pushed.active, pushed.is_new
    from pushed
    left join claim granted on granted.index = pushed.index and granted.is_granted
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
    from (
      select incoming.id, incoming.name, incoming.email, incoming.title, incoming.active, true as is_pushed
      from incoming
      where not incoming.is_new
      union all
      select holder.id, holder.name, null, holder.title, holder.active, false
      from outsider
      join claim on claim.email = outsider.email and claim.is_granted
      join universe.person holder on holder.id = outsider.id
    ) as i
    where p.id = i.id and (p.name, p.email, p.title, p.active) is distinct from (i.name, i.email, i.title, i.active)
    returning i.is_pushed
  )
  select
    (select count(*)::integer from made) as created,
    (select count(*)::integer from changed where changed.is_pushed) as updated`,
)
