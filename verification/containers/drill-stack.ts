import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type SignedCaller, createTestCaller, operatorActions } from '../../packages/local-stack/src/testing/index.ts'
import { z } from 'zod'
import type { Changeable } from '../../test/support/churn.ts'
import type { Compose } from './compose.ts'
import { openRelay, openTunnel } from './tunnel.ts'

export interface DrillStack extends Changeable {
  readWrites(): Promise<Map<string, { tenantId: string; title: string }[]>>
  stop(): Promise<void>
}

export async function openDrillStack(system: Compose): Promise<DrillStack> {
  const { installation } = system
  const way = { container: system.operatorContainer, host: 'keys', port: 8080 } as const
  const { env, own } = installation.engine
  const tunnel = await (own ? openRelay(system, way) : openTunnel({ ...way, env }))
  /** Rotated secrets must be used. */
  const read = (name: string): string => readFileSync(join(installation.secrets, 'operator', name), 'utf8').trim()
  const made = new Map<string, SignedCaller>()
  const callerOf = (ring: string, assertionKeys: string): SignedCaller => {
    const known = made.get(`${ring} ${assertionKeys}`)
    if (known !== undefined) return known
    const caller = createTestCaller({ baseUrl: tunnel.url, keyName: 'operator', ring, assertionKeys })
    made.set(`${ring} ${assertionKeys}`, caller)
    return caller
  }
  const operator: SignedCaller = {
    call: async (...args) =>
      await callerOf(read('POSTERN_SIGNING_OPERATOR'), read('POSTERN_ASSERTION_KEYS')).call(...args),
  }
  return {
    gateways: installation.gateways.map(({ url }) => url),
    operator,
    ...operatorActions(operator),
    readWrites: async () => {
      // Only drills write findings with an external id.
      const rows = await queryAsSuperuser(
        system,
        `select external_id as name, tenant_id as "tenantId", title from findings.finding where external_id is not null
         union all select file_name, tenant_id, tenant_id::text from evidence.file`,
      )
      return Map.groupBy(writesSchema.parse(rows), ({ name }) => name)
    },
    stop: async () => await tunnel.close(),
  }
}

const writesSchema = z.array(z.object({ name: z.string(), tenantId: z.string(), title: z.string() }))

export async function queryAsSuperuser(system: Compose, statement: string): Promise<Record<string, unknown>[]> {
  const [postgres = ''] = await system.containers('postgres')
  const password = readFileSync(join(system.installation.secrets, 'postgres', 'POSTGRES_PASSWORD'), 'utf8').trim()
  const client = ['psql', '--host=127.0.0.1', '--username=postgres', '--dbname=postern', '--no-align', '--tuples-only']
  const command = ['--command', `select to_json(rows) from (${statement}) as rows`]
  const lines = await system.docker(['exec', '--env', 'PGPASSWORD', postgres, ...client, ...command], {
    env: { PGPASSWORD: password },
  })
  return lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => z.record(z.string(), z.unknown()).parse(JSON.parse(line)))
}
