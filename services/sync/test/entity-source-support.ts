import { type Connector, type Run, entitySchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import type { WorkerParts } from '../src/worker/carry-out.ts'
import { useRuns } from './run-support.ts'

/** No limits. */
export const anything = { max_deactivate_pct: 100, max_deactivate: 1000, min_rows: 0, max_change_pct: 100 }

interface Other extends Partial<WorkerParts> {
  readonly isLast?: boolean
}

/** `useRuns` with helpers for the sources of entities. */
export function useEntitySources() {
  const runs = useRuns()

  async function create(tenant: Principal, fields: Record<string, unknown> = {}): Promise<Connector> {
    return await runs.create(tenant, { safety: anything, ...fields })
  }

  async function work(tenant: Principal, begun: Run, { isLast = false, ...other }: Other = {}): Promise<Run> {
    await runs.work(begun, other, { isLast })
    return await runs.now(tenant, begun)
  }

  /** Starts a run of rows `key` or `key:name`. A row without a key is invalid. */
  async function start(tenant: Principal, connector: Connector, rows: readonly string[], query = ''): Promise<Run> {
    const lines = rows.map((given) => given.split(':')).map(([key = '', name = key]) => `${key},${name},process`)
    return await runs.start(tenant, connector, ['external_id,name,type', ...lines, ''].join('\n'), query)
  }

  async function run(
    tenant: Principal,
    connector: Connector,
    rows: readonly string[],
    { query, ...other }: Other & { readonly query?: string } = {},
  ): Promise<Run> {
    return await work(tenant, await start(tenant, connector, rows, query), other)
  }

  async function read({ tenantId }: Principal, key: string) {
    const reader = { tenantId, scopes: ['read:universe'] }
    const { world, process } = runs.parts()
    const answer = await world.universeCaller(process.url).call(reader, 'GET', `/api/v1/entities/ext:${key}`)
    const { source, version, status } = entitySchema.parse(answer.json)
    return { source, version, status }
  }

  return { ...runs, create, start, work, run, read }
}
