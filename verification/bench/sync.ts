import { randomUUID } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { connectorSchema, runSchema } from '@postern/contracts'
import { Agent, request } from 'undici'
import { median, round } from './stats.ts'
import type { System } from './system.ts'

/** From the request that uploads the table to the end of its run; medians. */
export interface SyncSpeed {
  readonly rows: number
  readonly mebibytes: number
  readonly copySeconds: number
  /** COPY without triggers and policies: the lower bound of an import. */
  readonly storedSeconds: number
  readonly storedRatio: number
  readonly firstSeconds: number
  readonly firstRatio: number
  readonly unchangedSeconds: number
  readonly unchangedRatio: number
  readonly fewChangedSeconds: number
  readonly fewChangedRatio: number
}

export interface SyncMemory {
  readonly rows: number
  readonly peakMiB: number | undefined
}

const waits = new Agent({ headersTimeout: 600_000, bodyTimeout: 600_000 })

export async function measureSync(
  system: System,
  { rows, rounds }: { readonly rows: number; readonly rounds: number },
): Promise<SyncSpeed> {
  const folder = await mkdtemp(join('/tmp', 'postern-bench-sync-'))
  await chmod(folder, 0o755)
  try {
    const csv = tableOf(entities(rows))
    const turned = tableOf(entities(rows).toReversed())
    const fewChanged = tableOf(
      entities(rows).map((line, row) => (row % 1000 === 0 ? line.replace('Entity', 'Unit') : line)),
    )
    const file = join(folder, 'entities.csv')
    await writeFile(file, csv, { mode: 0o644 })
    const warm = await openImporter(system)
    await warm.run(tableOf(entities(2000)))
    await warm.run(tableOf(entities(2000)))
    const times = {
      copy: [] as number[],
      stored: [] as number[],
      first: [] as number[],
      unchanged: [] as number[],
      fewChanged: [] as number[],
    }
    for (let turn = 0; turn < rounds; turn += 1) {
      times.copy.push(await copy(system, file))
      const importer = await openImporter(system)
      times.first.push(await importer.run(csv))
      times.unchanged.push(await importer.run(turned))
      times.fewChanged.push(await importer.run(fewChanged))
      times.stored.push(await copyAsStored(system, importer.tenantId, folder))
    }
    const copySeconds = median(times.copy)
    const storedSeconds = median(times.stored)
    const firstSeconds = median(times.first)
    const unchangedSeconds = median(times.unchanged)
    const fewChangedSeconds = median(times.fewChanged)
    return {
      rows,
      mebibytes: round(Buffer.byteLength(csv) / 1024 / 1024, 1),
      copySeconds: round(copySeconds, 3),
      storedSeconds: round(storedSeconds, 2),
      storedRatio: round(storedSeconds / copySeconds, 1),
      firstSeconds: round(firstSeconds, 2),
      firstRatio: round(firstSeconds / copySeconds, 1),
      unchangedSeconds: round(unchangedSeconds, 2),
      unchangedRatio: round(unchangedSeconds / copySeconds, 1),
      fewChangedSeconds: round(fewChangedSeconds, 2),
      fewChangedRatio: round(fewChangedSeconds / copySeconds, 1),
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

export async function measureSyncMemory(system: System, counts: readonly number[]): Promise<SyncMemory[]> {
  const found: SyncMemory[] = []
  for (const rows of counts) {
    const importer = await openImporter(system)
    await system.stack.restart('sync')
    await importer.run(tableOf(entities(rows)), '?mode=dry_run')
    found.push({ rows, peakMiB: await peakOf(system.stack.process('sync').pid) })
  }
  return found
}

const columns = [
  'external_id',
  'parent_external_id',
  'name',
  'type',
  'status',
  'description',
  'owner.email',
  'owner.name',
  'inherent_risk.rating',
  'inherent_risk.score',
  'residual_risk.rating',
  'residual_risk.score',
  'risk_assessed_at',
  'audit_frequency_months',
  'last_audit_date',
  'last_audit_opinion',
]
const ratings = ['low', 'medium', 'high', 'critical']

function entities(count: number): string[] {
  return Array.from({ length: count }, (_none, row) => {
    const text = `What it is for and whom it concerns, as of the last review of entity ${row}`
    return [
      `E${row}`,
      row < 100 ? '' : `E${row % 100}`,
      `Entity ${row} of the audit universe`,
      'process',
      'active',
      row % 10 === 0 ? `"${text}"` : text.replace(',', ''),
      `owner-${row % 500}@example.com`,
      `Owner ${row % 500}`,
      ratings[row % 4],
      50 + (row % 50),
      ratings[row % 3],
      row % 50,
      `2026-0${1 + (row % 9)}-15`,
      [12, 24, 36][row % 3],
      `2025-0${1 + (row % 9)}-01`,
      'satisfactory',
    ].join(',')
  })
}

function tableOf(lines: readonly string[]): string {
  return `${[columns.join(','), ...lines].join('\n')}\n`
}

async function copy({ sql }: Pick<System, 'sql'>, file: string): Promise<number> {
  const table = `bench_${randomUUID().replaceAll('-', '')}`
  await sql.query(
    `create table public.${table} (
       external_id text, parent_external_id text, name text, type text, status text, description text, owner_email text,
       owner_name text, inherent_rating text, inherent_score double precision, residual_rating text,
       residual_score double precision, risk_assessed_on date, audit_frequency_months integer, last_audit_on date,
       last_audit_opinion text
     )`,
  )
  const startedAt = performance.now()
  await sql.query(`copy public.${table} from '${file}' with (format csv, header)`)
  const seconds = (performance.now() - startedAt) / 1000
  await sql.query(`drop table public.${table}`)
  return seconds
}

const given = (table: string): string => `
  select string_agg(quote_ident(attname), ', ' order by attnum) as names
  from pg_attribute
  where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped and attgenerated = ''`

async function copyAsStored({ sql }: Pick<System, 'sql'>, tenantId: string, folder: string): Promise<number> {
  let seconds = 0
  for (const table of ['universe.entity', 'universe.entity_path']) {
    const copied = `public.bench_${randomUUID().replaceAll('-', '')}`
    const file = join(folder, `${copied}.txt`)
    const { rows } = await sql.query<{ names: string }>(given(table))
    const names = rows[0]?.names ?? ''
    await writeFile(file, '')
    await chmod(file, 0o666)
    await sql.query(`copy (select ${names} from ${table} where tenant_id = '${tenantId}') to '${file}'`)
    await sql.query(`create table ${copied} (like ${table} including all)`)
    const startedAt = performance.now()
    await sql.query(`copy ${copied} (${names}) from '${file}'`)
    seconds += (performance.now() - startedAt) / 1000
    await sql.query(`drop table ${copied}`)
    await rm(file)
  }
  return seconds
}

async function openImporter({
  stack,
}: System): Promise<{ readonly tenantId: string; run(csv: string, query?: string): Promise<number> }> {
  const [gateway = ''] = stack.gateways
  const tenant = await stack.createTenant()
  const { key } = await stack.createKey(tenant, { scopes: ['admin:sync'] })
  const headers = { authorization: `ApiKey ${key}` }
  const made = await request(`${gateway}/api/v1/connectors`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ key: 'bench', name: 'Bench', type: 'csv', dataset: 'auditable_entities' }),
  })
  const { id } = connectorSchema.parse(await made.body.json())
  return {
    tenantId: tenant.id,
    run: async (csv, query = '') => {
      const startedAt = Date.now()
      const answer = await request(`${gateway}/api/v1/connectors/${id}/runs${query}`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'text/csv' },
        body: csv,
        dispatcher: waits,
      })
      let run = runSchema.parse(await answer.body.json())
      while (run.finished_at === null) {
        await delay(250)
        const asked = await request(`${gateway}/api/v1/sync-runs/${run.id}`, { headers })
        run = runSchema.parse(await asked.body.json())
        if (run.status === 'needs_approval') throw new Error('the run waits for approval')
      }
      if (run.status !== 'succeeded') throw new Error(`the run has ${run.status}: ${run.failure?.message ?? ''}`)
      return (Date.parse(run.finished_at) - startedAt) / 1000
    },
  }
}

async function peakOf(pid: number): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]
  return kibibytes === undefined ? undefined : Math.round(Number(kibibytes) / 1024)
}
