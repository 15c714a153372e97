import type { CreatedBy } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import type { DemoFinding } from './finding.ts'
import { type LogWriter, writeLog } from './write-log.ts'
import { memberOf } from './random.ts'

export interface WriteContext {
  readonly actor: CreatedBy
  readonly entityIds: ReadonlyMap<string, string>
  readonly evidence: LogWriter['evidence']
}

/** Triggers and constraints check every row as usual. Only the creation times are given. */
export async function writeFindings(tx: Tx, findings: readonly DemoFinding[], context: WriteContext): Promise<void> {
  // A repeated finding must be closed before its repeat.
  for (const isRepeat of [false, true]) {
    const wave = findings.filter(({ repeatOf }) => (repeatOf !== null) === isRepeat)
    if (wave.length === 0) continue
    await insertFindings(tx, wave, context)
    await insertRemedies(tx, wave, context)
    await extendPlans(tx, wave, context)
    await movePlans(tx, wave)
    await moveRecommendations(tx, wave)
    await moveFindings(tx, wave)
  }
  await writeLog(tx, findings, context)
}

export async function countFindings(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ total: number }>({
    text: "select count(*)::integer as total from findings.finding f where f.created_by_type = 'connector' and f.created_by_id = 'demo'",
    values: [],
  })
  return row?.total ?? 0
}

export async function hasFinding(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx.query({ text: 'select 1 from findings.finding f where f.id = $1::uuid', values: [id] })
  return rows.length > 0
}

async function run(tx: Tx, text: string, rows: readonly unknown[], ...values: readonly unknown[]): Promise<void> {
  if (rows.length > 0) await tx.execute({ text, values: [JSON.stringify(rows), ...values] })
}

async function assignNumbers<Row extends { readonly at: Date }>(
  tx: Tx,
  counter: 'reference_counter' | 'action_plan_counter',
  rows: readonly Row[],
): Promise<(Row & { readonly year: number; readonly number: number })[]> {
  const years = Map.groupBy(
    rows.toSorted((one, other) => one.at.getTime() - other.at.getTime()),
    ({ at }) => at.getUTCFullYear(),
  )
  const all: (Row & { readonly year: number; readonly number: number })[] = []
  for (const [year, ofYear] of years) {
    const [last] = await tx.query<{ last_number: number }>({
      text: allocateNumbers[counter],
      values: [year, ofYear.length],
    })
    const before = (last?.last_number ?? 0) - ofYear.length
    all.push(...ofYear.map((row, index) => ({ ...row, year, number: before + index + 1 })))
  }
  return all
}

const allocateNumbersFrom = (table: string): string => `
  insert into findings.${table} as c (tenant_id, year, last_number)
  values ((select tenancy.tenant_id()), $1, $2)
  on conflict (tenant_id, year) do update set last_number = c.last_number + excluded.last_number
  returning c.last_number`
const allocateNumbers = {
  reference_counter: allocateNumbersFrom('reference_counter'),
  action_plan_counter: allocateNumbersFrom('action_plan_counter'),
}

async function insertFindings(tx: Tx, wave: readonly DemoFinding[], { actor, entityIds }: WriteContext): Promise<void> {
  const rows = await assignNumbers(
    tx,
    'reference_counter',
    wave.map((finding) => ({
      at: finding.createdAt,
      id: finding.id,
      external_id: finding.external_id,
      title: finding.title,
      condition: finding.condition,
      criteria: finding.criteria,
      cause: finding.cause,
      consequence: finding.consequence,
      corrective_action: finding.corrective_action,
      cause_category: finding.cause_category,
      severity: finding.severity,
      type: finding.type,
      status: finding.status === 'draft' ? 'draft' : 'open',
      owner: finding.owner,
      identified_on: finding.identifiedOn,
      target_on: finding.targetOn,
      repeat_of_id: finding.repeatOf,
      source: finding.source,
      engagement_ref: finding.engagement_ref,
    })),
  )
  await run(
    tx,
    `insert into findings.finding (
       tenant_id, id, year, number, external_id, title, condition, criteria, cause, consequence, corrective_action,
       cause_category, severity, type, status, owner, identified_on, target_on, repeat_of_id, source, engagement_ref,
       created_by_type, created_by_id, created_by_label, created_at, updated_at)
     select (select tenancy.tenant_id()), r.id, r.year, r.number, r.external_id, r.title, r.condition, r.criteria, r.cause,
       r.consequence, r.corrective_action, r.cause_category, r.severity, r.type, r.status, r.owner, r.identified_on,
       r.target_on, r.repeat_of_id, r.source, r.engagement_ref, $2, $3, $4, r.at, r.at
     from jsonb_to_recordset($1::jsonb) as r (
       at timestamptz, id uuid, year integer, number integer, external_id text, title text, condition text, criteria text,
       cause text, consequence text, corrective_action text, cause_category text, severity text, type text, status text,
       owner jsonb, identified_on date, target_on date, repeat_of_id uuid, source text, engagement_ref text)`,
    rows,
    actor.type,
    actor.id,
    actor.label,
  )
  await run(
    tx,
    `insert into findings.finding_entity (tenant_id, finding_id, entity_id, position)
     select (select tenancy.tenant_id()), r.finding_id, r.entity_id, r.position
     from jsonb_to_recordset($1::jsonb) as r (finding_id uuid, entity_id uuid, position smallint)`,
    wave.flatMap(({ id, entities }) =>
      entities.map((entity, index) => ({ finding_id: id, entity_id: entityIds.get(entity), position: index + 1 })),
    ),
  )
}

async function insertRemedies(tx: Tx, wave: readonly DemoFinding[], { actor }: WriteContext): Promise<void> {
  const maker = [actor.type, actor.id, actor.label]
  await run(
    tx,
    `insert into findings.recommendation (
       tenant_id, id, finding_id, number, reference, external_id, text, priority,
       created_by_type, created_by_id, created_by_label, created_at, updated_at)
     select (select tenancy.tenant_id()), r.id, r.finding_id, r.number, 'R' || substr(f.reference, 2) || '.' || r.number,
       r.external_id, r.text, r.priority, $2, $3, $4, r.at, r.at
     from jsonb_to_recordset($1::jsonb) as r (
       at timestamptz, id uuid, finding_id uuid, number smallint, external_id text, text text, priority text)
     join findings.finding f on f.id = r.finding_id`,
    wave.flatMap(({ id, recommendations }) =>
      recommendations.map((row, index) => ({ ...row, at: row.createdAt, finding_id: id, number: index + 1 })),
    ),
    ...maker,
  )
  const plans = await assignNumbers(
    tx,
    'action_plan_counter',
    wave.flatMap(({ id, plans: own }) =>
      own.map((plan) => ({
        at: plan.createdAt,
        id: plan.id,
        finding_id: id,
        external_id: plan.external_id,
        title: plan.title,
        owner: plan.owner,
        due_on: plan.dueOn,
        priority: plan.priority,
      })),
    ),
  )
  await run(
    tx,
    `insert into findings.action_plan (
       tenant_id, id, year, number, finding_id, external_id, title, owner, due_on, original_due_on, priority,
       created_by_type, created_by_id, created_by_label, created_at, updated_at)
     select (select tenancy.tenant_id()), r.id, r.year, r.number, r.finding_id, r.external_id, r.title, r.owner, r.due_on,
       r.due_on, r.priority, $2, $3, $4, r.at, r.at
     from jsonb_to_recordset($1::jsonb) as r (
       at timestamptz, id uuid, year integer, number integer, finding_id uuid, external_id text, title text, owner jsonb,
       due_on date, priority text)`,
    plans,
    ...maker,
  )
  await run(
    tx,
    `insert into findings.action_plan_recommendation (tenant_id, finding_id, action_plan_id, recommendation_id, position)
     select (select tenancy.tenant_id()), r.finding_id, r.action_plan_id, r.recommendation_id, r.position
     from jsonb_to_recordset($1::jsonb) as r (
       finding_id uuid, action_plan_id uuid, recommendation_id uuid, position smallint)`,
    wave.flatMap(({ id, plans: own }) =>
      own.flatMap((plan) =>
        plan.recommendations.map((recommendation, index) => ({
          finding_id: id,
          action_plan_id: plan.id,
          recommendation_id: recommendation,
          position: index + 1,
        })),
      ),
    ),
  )
}

async function extendPlans(tx: Tx, wave: readonly DemoFinding[], { actor }: WriteContext): Promise<void> {
  const plans = wave.flatMap((finding) => finding.plans)
  for (const rows of stepsOf(plans, ({ extensions }) => extensions)) {
    const extended = rows.map(({ item, step, number }) => ({
      action_plan_id: item.id,
      number,
      from_on: step.from,
      to_on: step.to,
      reason: step.reason,
      approved_by: step.approvedBy,
      at: step.at,
    }))
    const recordset = `jsonb_to_recordset($1::jsonb) as r (
      action_plan_id uuid, number integer, from_on date, to_on date, reason text, approved_by jsonb, at timestamptz)`
    await run(
      tx,
      `insert into findings.action_plan_extension (
         tenant_id, action_plan_id, number, from_on, to_on, reason, approved_by,
         created_by_type, created_by_id, created_by_label, created_at)
       select (select tenancy.tenant_id()), r.action_plan_id, r.number, r.from_on, r.to_on, r.reason, r.approved_by,
         $2, $3, $4, r.at
       from ${recordset}`,
      extended,
      actor.type,
      actor.id,
      actor.label,
    )
    await run(
      tx,
      `update findings.action_plan p
       set due_on = r.to_on, extension_count = r.number, updated_at = r.at, version = p.version + 1
       from ${recordset}
       where p.id = r.action_plan_id`,
      extended,
    )
  }
}

async function movePlans(tx: Tx, wave: readonly DemoFinding[]): Promise<void> {
  const plans = wave.flatMap((finding) => finding.plans)
  for (const rows of stepsOf(plans, ({ moves }) => moves)) {
    await run(
      tx,
      `update findings.action_plan p
       set status = r.status, percent_complete = r.percent, version = p.version + 1,
         updated_at = greatest(p.updated_at, r.at),
         completed_on = case
           when r.status = 'implemented' then (r.at at time zone 'UTC')::date
           when r.status = 'verified' then p.completed_on
         end,
         verified_on = case when r.status = 'verified' then (r.at at time zone 'UTC')::date end,
         verified_by = r.verified_by
       from jsonb_to_recordset($1::jsonb) as r (
         id uuid, status text, percent smallint, at timestamptz, verified_by jsonb)
       where p.id = r.id`,
      rows.map(({ item: { id }, step: { at, to, percent, verifiedBy } }) => ({
        id,
        status: to,
        percent,
        at,
        ...(verifiedBy === null ? {} : { verified_by: verifiedBy }),
      })),
    )
  }
}

async function moveRecommendations(tx: Tx, wave: readonly DemoFinding[]): Promise<void> {
  const recommendations = wave.flatMap((finding) => finding.recommendations)
  for (const rows of stepsOf(recommendations, ({ moves }) => moves)) {
    await run(
      tx,
      `update findings.recommendation t
       set status = r.status, response = case r.status when 'rejected' then 'rejected' else 'accepted' end,
         response_rationale = r.rationale, updated_at = r.at, version = t.version + 1
       from jsonb_to_recordset($1::jsonb) as r (id uuid, status text, rationale text, at timestamptz)
       where t.id = r.id`,
      rows.map(({ item: { id }, step: { at, to, rationale } }) => ({ id, status: to, at, rationale })),
    )
  }
}

// The database rejects an acceptance that ended because midnight passed.
async function moveFindings(tx: Tx, wave: readonly DemoFinding[]): Promise<void> {
  for (const rows of stepsOf(wave, ({ moves }) => moves)) {
    await run(
      tx,
      `update findings.finding f
       set status = r.status, version = f.version + 1, updated_at = r.at,
         closed_on = case when r.status = 'closed' then (r.at at time zone 'UTC')::date end,
         validated_by = case when r.status = 'closed' then r.person end,
         accepted_by = case when r.status = 'risk_accepted' then r.person end,
         accepted_until = case when r.status = 'risk_accepted'
           then greatest(r.accepted_until, (now() at time zone 'UTC')::date) end
       from jsonb_to_recordset($1::jsonb) as r (
         id uuid, status text, person jsonb, accepted_until date, at timestamptz)
       where f.id = r.id`,
      rows.map(({ item: { id }, step: { at, to, by, acceptedUntil } }) => ({
        id,
        status: to,
        at,
        accepted_until: acceptedUntil,
        ...(by === null ? {} : { person: by }),
      })),
    )
  }
}

interface Step<Item, Value> {
  readonly item: Item
  readonly step: Value
  readonly number: number
}

function* stepsOf<Item, Value>(
  items: readonly Item[],
  of: (item: Item) => readonly Value[],
): Generator<Step<Item, Value>[]> {
  const most = items.reduce((longest, item) => Math.max(longest, of(item).length), 0)
  for (let number = 1; number <= most; number += 1) {
    yield items
      .filter((item) => of(item).length >= number)
      .map((item) => ({ item, step: memberOf(of(item), number - 1), number }))
  }
}
