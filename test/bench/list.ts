import type { Statement, Tx } from '@postern/tenant-db'
import { Client } from 'undici'
import { listFindings } from '../../services/findings/src/finding/list/store.ts'
import { median, round } from './stats.ts'
import type { System } from './system.ts'

/** A list of findings, milliseconds a request, one after the other; medians. */
export interface ListResult {
  readonly rows: number
  readonly throughEverything: number
  /** Straight to the service, signed as the gateway signs. */
  readonly throughService: number
  readonly sqlAlone: number
  /** Gateway, service and row-level security ÷ SQL alone. */
  readonly ratio: number
  /** Service and row-level security ÷ SQL alone. */
  readonly serviceRatio: number
}

const pageSize = 50

/**
 * Compares a list through gateway, findings service and row-level security with the same statement sent straight to
 * PostgreSQL, by a role that no policy holds, with the tenant named in the statement.
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
  const headers = { authorization: `ApiKey ${key}`, 'content-type': 'application/json' }
  try {
    for (let row = 0; row < rows; row += 1) {
      const made = await client.request({ method: 'POST', path: '/api/v1/findings', headers, body: finding(row) })
      const answer = await made.body.text()
      if (made.statusCode !== 201) throw new Error(`no finding was created: ${made.statusCode} ${answer}`)
    }
    await system.sql.query('analyze findings.finding')
    const statement = await listStatement(system.tenant.id)
    const ways = {
      everything: async () => {
        const { statusCode, body } = await client.request({
          method: 'GET',
          path: `/api/v1/findings?limit=${pageSize}`,
          headers,
        })
        const found: unknown = JSON.parse(await body.text())
        return statusCode === 200 && Array.isArray(found) ? found.length : 0
      },
      service: async () => {
        const { status, json } = await service.call(reader, 'GET', `/api/v1/findings?limit=${pageSize}`)
        return status === 200 && Array.isArray(json) ? json.length : 0
      },
      sql: async () => (await system.sql.query(statement)).rows.length,
    }
    const times = { everything: [] as number[], service: [] as number[], sql: [] as number[] }
    for (let turn = 0; turn < rounds; turn += 1) {
      for (const way of ['everything', 'service', 'sql'] as const) times[way].push(await time(ways[way], repeats))
    }
    const throughEverything = median(times.everything)
    const throughService = median(times.service)
    const sqlAlone = median(times.sql)
    return {
      rows,
      throughEverything: round(throughEverything, 3),
      throughService: round(throughService, 3),
      sqlAlone: round(sqlAlone, 3),
      ratio: round(throughEverything / sqlAlone),
      serviceRatio: round(throughService / sqlAlone),
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

/** The statement that the findings service sends for its list; the tenant, which its policy adds, is written out. */
async function listStatement(tenantId: string): Promise<{ name: string; text: string; values: unknown[] }> {
  let sent: Statement | undefined
  const tx: Tx = {
    query: async (statement) => {
      sent = statement
      return []
    },
    execute: async () => 0,
  }
  await listFindings(tx, {}, { sort: '-created_at', after: undefined, limit: pageSize })
  if (sent === undefined) throw new Error('the list sent no statement')
  // PostgreSQL plans it as if the condition stood beside the others.
  const text = sent.text.replace(
    /from findings\.finding (\w+)/,
    `from (select * from findings.finding where tenant_id = '${tenantId}'::uuid) $1`,
  )
  if (text === sent.text) throw new Error('the statement of the list has changed: where does the tenant go?')
  return { name: 'bench_list', text, values: [...sent.values] }
}

function finding(row: number): string {
  return JSON.stringify({
    title: `Access review ${row} was not done`,
    condition: 'The review of the second quarter is missing. '.repeat(8),
    criteria: 'Every quarter, by the owner of the application.',
    cause: 'The owner had left.',
    consequence: 'Leavers may keep their access.',
    severity: 'medium',
    type: 'control_deficiency',
    owner: { email: 'owner@example.com' },
    source: 'internal_audit',
  })
}
