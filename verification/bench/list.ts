import type { Statement, Tx } from '@postern/tenant-db'
import { Client as Connection } from 'pg'
import { Client } from 'undici'
import { listFindingTexts } from '../../services/findings/src/finding/list/store.ts'
import { columns } from '../../services/findings/src/finding/row.ts'
import { keysetList } from '../../services/findings/src/keyset.ts'
import { fillFindings, preparePrototypes } from './fill-findings.ts'
import { cpuOf } from './processes.ts'
import { median, middleMean, round } from './stats.ts'
import type { System } from './system.ts'

/** Milliseconds per sequential request; medians, with ratios from `apart`. */
export interface ListResult {
  readonly rows: number
  readonly throughEverything: number
  readonly throughService: number
  /** As a service without row-level security would. */
  readonly sqlRows: number
  readonly sqlJson: number
  readonly ratio: number
  readonly serviceRatio: number
  readonly jsonRatio: number
  /** Processor time; undefined without /proc. */
  readonly cpu?: WaysCompared
  /** Several requests at once. */
  readonly busy: WaysCompared
}

export interface WaysCompared {
  readonly service: number
  readonly sqlRows: number
  readonly sqlJson: number
  readonly ratio: number
  readonly jsonRatio: number
}

const findingRows = keysetList<'-created_at', { id: string; created_at: string }>({
  name: 'findings_rows',
  select: `select ${columns.replaceAll('f.', 't.')} from findings.finding t`,
  orders: {
    '-created_at': {
      columns: [{ column: 'created_at', type: 'timestamptz' }],
      direction: 'desc',
      valuesOf: ({ created_at }) => [created_at],
    },
  },
})

const pageSize = 100
const target = `/api/v1/findings?limit=${pageSize}`

/**
 * The same SQL goes straight to PostgreSQL, without policies and with the tenant in the statement. Every way ends with
 * parsed findings.
 */
export async function measureList(
  system: System,
  { rows, repeats, rounds }: { readonly rows: number; readonly repeats: number; readonly rounds: number },
): Promise<ListResult> {
  await system.restartGateway({})
  const [origin] = system.stack.gateways
  if (origin === undefined) throw new Error('there is no gateway')
  await preparePrototypes(system.sql)
  await fillFindings(system.sql, {
    own: system.tenant.id,
    ownFindings: rows,
    behind: 0,
    others: 0,
    perOther: 0,
    entriesPerFinding: 1,
    deadline: Number.POSITIVE_INFINITY,
  })
  return await compareWays(system, origin, { rows, repeats, rounds })
}

export async function compareWays(
  system: System,
  origin: string,
  { rows, repeats, rounds }: { readonly rows: number; readonly repeats: number; readonly rounds: number },
): Promise<ListResult> {
  const { key } = await system.stack.createKey(system.tenant, { scopes: ['*'] })
  const client = new Client(origin)
  const service = new Client(system.stack.serviceUrl('findings'))
  const gateway = system.stack.caller('findings')
  const reader = { tenantId: system.tenant.id, scopes: ['read:findings'] } as const
  const headers = { authorization: `ApiKey ${key}` }
  try {
    const bounds = { sort: '-created_at', after: undefined, limit: pageSize + 1 } as const
    const asRows = await statementOf(system.tenant.id, async (tx) => tx.query(findingRows.page(bounds, [])))
    const day = new Date().toISOString().slice(0, 10)
    const asJson = await statementOf(system.tenant.id, async (tx) => listFindingTexts(tx, {}, bounds, day))
    const ways: Readonly<Record<Way, () => Call>> = {
      everything: () => async () => await findingsOf(client, headers),
      service: () => {
        const signed = gateway.sign(reader, 'GET', target)
        return async () => await findingsOf(service, signed)
      },
      rows: () => async () => (await system.sql.query(asRows)).rows.length,
      json: () => async () => {
        const { rows: texts } = await system.sql.query<{ json: string }>(asJson)
        return texts.map(({ json }): unknown => JSON.parse(json)).length
      },
    }
    const times = { everything: [] as number[], service: [] as number[], rows: [] as number[], json: [] as number[] }
    const spent = { everything: [] as number[], service: [] as number[], rows: [] as number[], json: [] as number[] }
    const processesOf = async (way: Way): Promise<number[]> =>
      way === 'service'
        ? [system.stack.process('findings').pid, ...(await backendsOf(system.sql, 'postern-findings'))]
        : [process.pid, ...(await backendsOf(system.sql, undefined))]
    for (let turn = 0; turn < rounds; turn += 1) {
      for (const way of turned(['everything', 'service', 'rows', 'json'] as const, turn)) {
        await ways[way]()()
        const processes = await processesOf(way)
        const before = cpuOfAll(processes)
        times[way].push(await time(ways[way], repeats))
        spent[way].push((cpuOfAll(processes) - before) / (2 * repeats) / 1000)
      }
    }
    const busy = await compareBusy(system, { asRows, asJson, rounds, pages: 2 * repeats, read: findingsOf })
    const throughEverything = median(times.everything)
    const throughService = median(times.service)
    const [sqlRows, sqlJson] = [median(times.rows), median(times.json)]
    const cpu = { service: median(spent.service), rows: median(spent.rows), json: median(spent.json) }
    return {
      rows,
      throughEverything: round(throughEverything, 3),
      throughService: round(throughService, 3),
      sqlRows: round(sqlRows, 3),
      sqlJson: round(sqlJson, 3),
      ratio: apart(times.everything, times.rows),
      serviceRatio: apart(times.service, times.rows),
      jsonRatio: apart(times.service, times.json),
      busy,
      ...(Number.isNaN(cpu.service)
        ? {}
        : {
            cpu: {
              service: round(cpu.service, 3),
              sqlRows: round(cpu.rows, 3),
              sqlJson: round(cpu.json, 3),
              ratio: apart(spent.service, spent.rows),
              jsonRatio: apart(spent.service, spent.json),
            },
          }),
    }
  } finally {
    await Promise.all([client.close(), service.close()])
  }
}

const atOnce = 6

/** Sequential pages mostly wait for process wake-ups; concurrent ones show the cost. */
async function compareBusy(
  system: System,
  {
    asRows,
    asJson,
    rounds,
    pages,
    read,
  }: {
    readonly asRows: Sql
    readonly asJson: Sql
    readonly rounds: number
    readonly pages: number
    readonly read: typeof findingsOf
  },
): Promise<WaysCompared> {
  const gateway = system.stack.caller('findings')
  const reader = { tenantId: system.tenant.id, scopes: ['read:findings'] } as const
  const lanes = Array.from({ length: atOnce }, () => ({
    service: new Client(system.stack.serviceUrl('findings')),
    sql: new Connection({ connectionString: system.stack.database.url('superuser') }),
  }))
  try {
    await Promise.all(lanes.map(async ({ sql }) => await sql.connect()))
    const signed: ReturnType<typeof gateway.sign>[] = []
    const ways: Readonly<Record<'service' | 'rows' | 'json', (lane: (typeof lanes)[number]) => Promise<number>>> = {
      service: async ({ service }) => await read(service, signed.pop() ?? gateway.sign(reader, 'GET', target)),
      rows: async ({ sql }) => (await sql.query(asRows)).rows.length,
      json: async ({ sql }) => {
        const { rows: texts } = await sql.query<{ json: string }>(asJson)
        return texts.map(({ json }): unknown => JSON.parse(json)).length
      },
    }
    const times = { service: [] as number[], rows: [] as number[], json: [] as number[] }
    for (let turn = 0; turn < rounds; turn += 1) {
      for (const way of turned(['service', 'rows', 'json'] as const, turn)) {
        await inLanes(lanes, pages, ways[way])
        if (way === 'service') {
          while (signed.length < pages) signed.push(gateway.sign(reader, 'GET', target))
        }
        const startedAt = performance.now()
        await inLanes(lanes, pages, ways[way])
        times[way].push((performance.now() - startedAt) / pages)
      }
    }
    const [service, sqlRows, sqlJson] = [median(times.service), median(times.rows), median(times.json)]
    return {
      service: round(service, 3),
      sqlRows: round(sqlRows, 3),
      sqlJson: round(sqlJson, 3),
      ratio: apart(times.service, times.rows),
      jsonRatio: apart(times.service, times.json),
    }
  } finally {
    await Promise.all(lanes.flatMap(({ service, sql }) => [service.close(), sql.end()]))
  }
}

async function inLanes<Lane>(
  lanes: readonly Lane[],
  pages: number,
  ask: (lane: Lane) => Promise<number>,
): Promise<void> {
  let left = pages
  await Promise.all(
    lanes.map(async (lane) => {
      while (left > 0) {
        left -= 1
        const found = await ask(lane)
        if (found < pageSize) throw new Error(`a list has ${found} findings`)
      }
    }),
  )
}

interface Sql {
  readonly name: string
  readonly text: string
  readonly values: unknown[]
}

async function backendsOf(sql: System['sql'], application: string | undefined): Promise<number[]> {
  const { rows } = await sql.query<{ pid: number }>(
    `select pid from pg_stat_activity
     where case when $1::text is null then pid = pg_backend_pid()
       else application_name = $1 and datname = current_database() end`,
    [application],
  )
  return rows.map(({ pid }) => pid)
}

function cpuOfAll(processes: readonly number[]): number {
  return processes.reduce((sum, pid) => sum + (cpuOf(pid) ?? Number.NaN), 0)
}

type Way = 'everything' | 'service' | 'rows' | 'json'

type Call = () => Promise<number>

/** The undici API that the gateway uses; others cost the client more. */
async function findingsOf(client: Client, headers: Readonly<Record<string, string>>): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const chunks: Buffer[] = []
  client.dispatch(
    { method: 'GET', path: target, headers },
    {
      onRequestStart: () => undefined,
      onResponseStart: (_controller, status) => {
        if (status !== 200) reject(new Error(`the list was answered with ${status}`))
      },
      onResponseData: (_controller, chunk) => chunks.push(chunk),
      onResponseEnd: () => resolve(Buffer.concat(chunks)),
      onResponseError: (_controller, error) => reject(error),
    },
  )
  return countFindings(await promise)
}

function turned<One>(ways: readonly One[], turn: number): readonly One[] {
  return ways.map((_, at) => ways[(at + turn) % ways.length]).filter((way) => way !== undefined)
}

function apart(ours: readonly number[], theirs: readonly number[]): number {
  return round(middleMean(ours.map((figure, turn) => figure / (theirs[turn] ?? Number.NaN))))
}

const between = '},{"id":"'
const pieceBytes = 64 * 1024

/** Large strings are slow to create in V8. */
function countFindings(list: Buffer): number {
  const end = list.length - 1
  let found = 0
  for (let from = 1, to = 0; from < end; from = to + 1) {
    to = end - from > pieceBytes ? list.lastIndexOf(between, from + pieceBytes) + 1 : end
    const some: unknown = JSON.parse(`[${list.toString('utf8', from, to)}]`)
    if (to <= from || !Array.isArray(some)) throw new Error('no list of findings')
    found += some.length
  }
  return found
}

/** After a warm-up of as many calls. `prepare` is not measured. */
async function time(prepare: () => Call, repeats: number): Promise<number> {
  const times: number[] = []
  for (let turn = 0; turn < 2 * repeats; turn += 1) {
    const call = prepare()
    const startedAt = performance.now()
    const found = await call()
    if (turn >= repeats) times.push(performance.now() - startedAt)
    if (found < pageSize) throw new Error(`a list has ${found} findings`)
  }
  return median(times)
}

async function statementOf(tenantId: string, list: (tx: Tx) => Promise<unknown>): Promise<Sql> {
  let sent: Statement | undefined
  const tx: Tx = {
    query: async (statement) => {
      sent = statement
      return []
    },
    execute: async () => 0,
  }
  await list(tx)
  if (sent === undefined) throw new Error('the list sent no statement')
  // PostgreSQL plans this as if the conditions were part of the query.
  const ofTenant = (table: string): string => `from (select * from ${table} where tenant_id = '${tenantId}'::uuid) $1`
  const text = sent.text
    .replace(/from findings\.finding (\w+)/, ofTenant('findings.finding'))
    .replace(/from findings\.finding_entity (\w+)/, ofTenant('findings.finding_entity'))
  if (text.split(tenantId).length !== 3)
    throw new Error('The statement of the list has changed. Say here where the tenant belongs.')
  return { name: `bench_${sent.name ?? 'list'}`, text, values: [...sent.values] }
}
