import type { Statement, Tx } from '@postern/tenant-db'
import { Client } from 'undici'
import { listFindingTexts, listFindings } from '../../services/findings/src/finding/list/store.ts'
import { fillFindings, preparePrototypes } from './fill-findings.ts'
import { median, round } from './stats.ts'
import type { System } from './system.ts'

/** A page of 100 findings, milliseconds a request, one after the other on one connection; medians. */
export interface ListResult {
  readonly rows: number
  readonly throughEverything: number
  /** Straight to the service, signed as the gateway signs. */
  readonly throughService: number
  /** The same findings as rows that `pg` reads: what a service without row-level security asks for. */
  readonly sqlRows: number
  /** The statement that the service sends, whose rows are JSON already. */
  readonly sqlJson: number
  /** Gateway, service and row-level security ÷ `sqlRows`. */
  readonly ratio: number
  /** Service and row-level security ÷ `sqlRows`. */
  readonly serviceRatio: number
  /** Service and row-level security ÷ `sqlJson`. */
  readonly jsonRatio: number
}

const pageSize = 100
const target = `/api/v1/findings?limit=${pageSize}`

/**
 * Compares a list through gateway, findings service and row-level security with the same SQL sent straight to
 * PostgreSQL, by a role that no policy holds, with the tenant named in the statement: once as rows, which `pg` reads into
 * objects, and once as the service asks for it. Whoever asks over HTTP reads the answer's JSON, in the time that counts.
 */
export async function measureList(
  system: System,
  { rows, repeats, rounds }: { readonly rows: number; readonly repeats: number; readonly rounds: number },
): Promise<ListResult> {
  await system.restartGateway({})
  const [origin] = system.stack.gateways
  if (origin === undefined) throw new Error('there is no gateway')
  const { key } = await system.stack.createKey(system.tenant, { scopes: ['*'] })
  const client = new Client(origin)
  const service = system.stack.caller('findings')
  const reader = { tenantId: system.tenant.id, scopes: ['read:findings'] } as const
  const headers = { authorization: `ApiKey ${key}` }
  try {
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
    const bounds = { sort: '-created_at', after: undefined, limit: pageSize + 1 } as const
    const asRows = await statementOf(system.tenant.id, async (tx) => listFindings(tx, {}, bounds))
    const day = new Date().toISOString().slice(0, 10)
    const asJson = await statementOf(system.tenant.id, async (tx) => listFindingTexts(tx, {}, bounds, day))
    const ways = {
      everything: async () => {
        const { statusCode, body } = await client.request({ method: 'GET', path: target, headers })
        const found: unknown = JSON.parse(await body.text())
        return statusCode === 200 && Array.isArray(found) ? found.length : 0
      },
      service: async () => {
        const { status, json } = await service.call(reader, 'GET', target)
        return status === 200 && Array.isArray(json) ? json.length : 0
      },
      rows: async () => (await system.sql.query(asRows)).rows.length,
      json: async () => (await system.sql.query(asJson)).rows.length,
    }
    const times = { everything: [] as number[], service: [] as number[], rows: [] as number[], json: [] as number[] }
    for (let turn = 0; turn < rounds; turn += 1) {
      for (const way of ['everything', 'service', 'rows', 'json'] as const) {
        times[way].push(await time(ways[way], repeats))
      }
    }
    const throughEverything = median(times.everything)
    const throughService = median(times.service)
    const [sqlRows, sqlJson] = [median(times.rows), median(times.json)]
    return {
      rows,
      throughEverything: round(throughEverything, 3),
      throughService: round(throughService, 3),
      sqlRows: round(sqlRows, 3),
      sqlJson: round(sqlJson, 3),
      ratio: round(throughEverything / sqlRows),
      serviceRatio: round(throughService / sqlRows),
      jsonRatio: round(throughService / sqlJson),
    }
  } finally {
    await client.close()
  }
}

/** The median of many calls, after as many that do not count. */
async function time(call: () => Promise<number>, repeats: number): Promise<number> {
  const times: number[] = []
  for (let turn = 0; turn < 2 * repeats; turn += 1) {
    const startedAt = performance.now()
    const found = await call()
    if (turn >= repeats) times.push(performance.now() - startedAt)
    if (found < pageSize) throw new Error(`a list of ${found}`)
  }
  return median(times)
}

/** The statement that a list sends; the tenant, which its policy adds, is written out. */
async function statementOf(
  tenantId: string,
  list: (tx: Tx) => Promise<unknown>,
): Promise<{ name: string; text: string; values: unknown[] }> {
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
  // PostgreSQL plans it as if the condition stood beside the others.
  const text = sent.text.replace(
    /from findings\.finding (\w+)/,
    `from (select * from findings.finding where tenant_id = '${tenantId}'::uuid) $1`,
  )
  if (text === sent.text) throw new Error('the statement of the list has changed: where does the tenant go?')
  return { name: `bench_${sent.name ?? 'list'}`, text, values: [...sent.values] }
}
