import { randomUUID } from 'node:crypto'
import { generateDemo, readScenarios } from '@postern/local-stack/testing'
import type { Client } from 'pg'

export interface FilledRows {
  readonly tenants: number
  readonly findings: number
  readonly logEntries: number
}

export interface Filling {
  readonly own: string
  readonly ownFindings: number
  readonly behind: number
  readonly others: number
  readonly perOther: number
  readonly entriesPerFinding: number
  readonly deadline: number
}

const prototypes = 960

export async function preparePrototypes(sql: Client): Promise<void> {
  const [bank] = readScenarios()
  if (bank === undefined) throw new Error('the demo has no tenant')
  const { findings } = generateDemo(bank, { today: new Date(), factor: prototypes / bank.counts.findings.all })
  await sql.query(`
    drop table if exists pg_temp.prototype;
    create temporary table prototype (
      number integer primary key, title text, condition text, criteria text, cause text, consequence text,
      corrective_action text, cause_category text, severity text, type text, owner jsonb)`)
  await sql.query(
    `insert into prototype
     select r.number, r.title, r.condition, r.criteria, r.cause, r.consequence, r.corrective_action, r.cause_category,
       r.severity, r.type, r.owner
     from jsonb_to_recordset($1::jsonb) as r (
       number integer, title text, condition text, criteria text, cause text, consequence text, corrective_action text,
       cause_category text, severity text, type text, owner jsonb)`,
    [JSON.stringify(findings.slice(0, prototypes).map((finding, number) => ({ ...finding, number })))],
  )
}

const tenantsAtOnce = 10

export async function fillFindings(sql: Client, filling: Filling, helper?: Client): Promise<FilledRows> {
  const { own, ownFindings, behind, others, perOther, entriesPerFinding, deadline } = filling
  const fillers = helper === undefined ? [sql] : [sql, helper]
  if (helper !== undefined) await preparePrototypes(helper)
  for (const filler of fillers) await filler.query('set session_replication_role = replica')
  if (behind === 0) await sql.query('truncate findings.finding cascade')
  // Autovacuum would read ten gigabytes during the measurement.
  await sql.query('alter table findings.tracker_log set (autovacuum_enabled = off, toast.autovacuum_enabled = off)')
  const fill = async (filler: Client, tenants: readonly string[], before: number, count: number): Promise<void> => {
    await insertFindings(filler, tenants, before, count)
    if (performance.now() >= deadline) return
    await insertLog(filler, tenants, { from: before + 1, to: before + count, entries: entriesPerFinding })
  }
  const tenants = Array.from({ length: others }, () => randomUUID())
  await Promise.all(
    fillers.map(async (filler) => {
      if (filler === sql) await fill(filler, [own], behind, ownFindings)
      while (tenants.length > 0) await fill(filler, tenants.splice(0, tenantsAtOnce), 0, perOther)
    }),
  )
  for (const filler of fillers) await filler.query('set session_replication_role = origin')
  await sql.query('vacuum analyze findings.finding, findings.finding_entity')
  await sql.query('analyze findings.tracker_log')
  await sql.query('checkpoint')
  const { rows } = await sql.query<{ tenants: number; findings: number; entries: number }>(
    `select (select count(distinct tenant_id)::integer from findings.finding) as tenants,
       (select count(*)::integer from findings.finding) as findings,
       (select count(*)::integer from findings.tracker_log) as entries`,
  )
  const { tenants: counted = 0, findings = 0, entries = 0 } = rows[0] ?? {}
  return { tenants: counted, findings, logEntries: entries }
}

async function insertFindings(sql: Client, tenants: readonly string[], behind: number, count: number): Promise<void> {
  const values = [tenants, behind + 1, behind + count, prototypes]
  await sql.query(
    `insert into findings.finding (
       tenant_id, id, year, number, external_id, title, condition, criteria, cause, consequence, corrective_action,
       cause_category, severity, type, status, owner, identified_on, target_on, source, engagement_ref,
       created_by_type, created_by_id, created_by_label, created_at, updated_at)
     select t.id, uuidv7(), 2026, n, 'AUD-' || n, p.title, p.condition, p.criteria, p.cause, p.consequence,
       p.corrective_action, p.cause_category, p.severity, p.type, 'open', p.owner, current_date - 100, current_date + 100,
       'internal_audit', 'IA-01', 'connector', 'bench', 'Bench',
       now() - n * interval '1 minute', now() - n * interval '1 minute'
     from unnest($1::uuid[]) as t (id)
     cross join generate_series($2::integer, $3::integer) as n
     join prototype p on p.number = n % $4::integer`,
    values,
  )
  await sql.query(
    `insert into findings.finding_entity (tenant_id, finding_id, entity_id, position)
     select f.tenant_id, f.id, gen_random_uuid(), 1
     from findings.finding f
     where f.tenant_id = any($1::uuid[]) and f.number between $2 and $3`,
    values.slice(0, 3),
  )
}

async function insertLog(
  sql: Client,
  tenants: readonly string[],
  { from, to, entries }: { readonly from: number; readonly to: number; readonly entries: number },
): Promise<void> {
  await sql.query(
    `insert into findings.tracker_log (
       tenant_id, position, finding_id, seq, kind, actor_type, actor_id, has_evidence, recorded_at, entry, hash, root)
     select e.tenant_id, e.position, e.id, e.seq, 'progress', 'connector', 'bench', false, now(),
       '{"action_plan_id":null,"actor":{"id":"bench","label":"Bench","type":"connector"},"body":"On track.","changes":[{"field":"percent_complete","from":10,"to":20}],"corrects_seq":null,"evidence_refs":[],"finding_id":"'
         || e.id || '","kind":"progress","occurred_at":"2026-01-01T00:00:00.000Z","on_behalf_of":null,"position":'
         || e.position || ',"prev_hash":"' || e.hash || '","recommendation_id":null,'
         || '"recorded_at":"2026-01-01T00:00:00.000Z","seq":' || e.seq || '}',
       e.hash, e.hash
     from (
       select f.tenant_id, f.id, s.seq, (f.number - 1)::bigint * $4::integer + s.seq as position,
         f.hash || f.hash as hash
       from (
         select f.tenant_id, f.id, f.number, md5(f.id::text) as hash
         from findings.finding f
         where f.tenant_id = any($1::uuid[]) and f.number between $2 and $3
         order by f.tenant_id, f.number
       ) as f
       -- In the order of the log, without sorting what is wide.
       cross join generate_series(1, $4::integer) as s (seq)
     ) as e`,
    [tenants, from, to, entries],
  )
}
