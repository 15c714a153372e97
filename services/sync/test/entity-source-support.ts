import { type Connector, type Run, entitySchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import type { WorkerParts } from '../src/worker/carry-out.ts'
import { useRuns } from './run-support.ts'

/** Limits that hold nothing up. */
export const anything = { max_deactivate_pct: 100, max_deactivate: 1000, min_rows: 0, max_change_pct: 100 }

/** Replaces dependencies of a worker. */
interface Other extends Partial<WorkerParts> {
  readonly isLast?: boolean
}

/** As `useRuns`, for tests that carry runs of small tables out, and ask where entities come from. */
export function useEntitySources() {
  const runs = useRuns()

  async function create(tenant: Principal, fields: Record<string, unknown> = {}): Promise<Connector> {
    return await runs.create(tenant, { safety: anything, ...fields })
  }

  async function work(tenant: Principal, begun: Run, { isLast = false, ...other }: Other = {}): Promise<Run> {
    await runs.work(begun, other, { isLast })
    return await runs.now(tenant, begun)
  }

  /** Begins a run of a table of rows `key` or `key:name`; without a key the row cannot be taken in. */
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
