import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type SignedCaller, createTestCaller, operatorActions } from '../../packages/local-stack/src/testing/index.ts'
import type { Changeable } from '../support/churn.ts'
import type { Compose } from './compose.ts'
import { openTunnel } from './tunnel.ts'

/** What the drills change and ask, in the shape that the load of the fault tests knows. */
export interface DrillStack extends Changeable {
  /** What PostgreSQL holds of each accepted write, by the name that its request gave it. */
  readWrites(): Promise<Map<string, { tenantId: string; title: string }[]>>
  stop(): Promise<void>
}

/** Speaks to the keys service from the operator's container, whose way there is the only one. */
export async function openDrillStack(system: Compose): Promise<DrillStack> {
  const { installation, docker } = system
  const tunnel = await openTunnel({
    env: installation.engine.env,
    container: system.operatorContainer,
    host: 'keys',
    port: 8080,
  })
  /** The files are those that the operator's own command reads: what is rotated counts from the next call on. */
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
      const [postgres = ''] = await system.containers('postgres')
      const password = readFileSync(join(installation.secrets, 'postgres', 'POSTGRES_PASSWORD'), 'utf8').trim()
      // A file's name is what its request called it; that it is the tenant's own, its row alone says.
      const statement = `select json_build_object('name', external_id, 'tenantId', tenant_id, 'title', title) from findings.finding
        union all select json_build_object('name', file_name, 'tenantId', tenant_id, 'title', tenant_id::text) from evidence.file`
      const client = [
        'psql',
        '--host=127.0.0.1',
        '--username=postgres',
        '--dbname=postern',
        '--no-align',
        '--tuples-only',
      ]
      const lines = await docker(['exec', '--env', 'PGPASSWORD', postgres, ...client, '--command', statement], {
        env: { PGPASSWORD: password },
      })
      const rows: { name: string; tenantId: string; title: string }[] = lines
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
      return Map.groupBy(rows, ({ name }) => name)
    },
    stop: async () => await tunnel.close(),
  }
}
