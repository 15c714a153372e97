import type { Connector } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'

interface ConnectorRow {
  readonly id: string
  readonly key: string
  readonly name: string
  readonly type: Connector['type']
  readonly dataset: Connector['dataset']
  readonly state: Connector['state']
  readonly last_run_at: Date | null
  readonly created_at: Date
  readonly updated_at: Date
  readonly version: number
}

// The key is unique in the tenant, hence a total order; served by connector_key_unique, whose collation is that of the
// comparison.
const selectConnectorsText = `
  select id, key, name, type, dataset, state, last_run_at, created_at, updated_at, version
  from sync.connector
  where tenant_id = (select tenancy.tenant_id())
    and ($1::text is null or key = $1)
    and ($2::text is null or key > $2)
  order by key
  limit $3`

/** Connectors by key, those after `after`, at most `limit`; all of one `key` when it is given. */
export async function selectConnectors(
  tx: Tx,
  {
    key,
    after,
    limit,
  }: { readonly key: string | undefined; readonly after: string | undefined; readonly limit: number },
): Promise<Connector[]> {
  const rows = await tx.query<ConnectorRow>({
    name: 'sync_select_connectors',
    text: selectConnectorsText,
    values: [key ?? null, after ?? null, limit],
  })
  return rows.map(toConnector)
}

const countConnectorsText = `
  select count(*)::integer as total
  from sync.connector
  where tenant_id = (select tenancy.tenant_id())
    and ($1::text is null or key = $1)`

/** How many connectors the list holds over all its pages. */
export async function countConnectors(tx: Tx, key: string | undefined): Promise<number> {
  const [row] = await tx.query<{ total: number }>({
    name: 'sync_count_connectors',
    text: countConnectorsText,
    values: [key ?? null],
  })
  return row?.total ?? 0
}

/** The connectors that stand for pushes: one a dataset. */
const inlineConnectors: Readonly<Record<Connector['dataset'], { readonly key: string; readonly name: string }>> = {
  auditable_entities: { key: 'inline', name: 'Inline pushes' },
  org_structure: { key: 'inline-org-structures', name: 'Inline pushes of hierarchies' },
  test_procedures: { key: 'inline-test-procedures', name: 'Inline pushes of test procedures' },
  people: { key: 'inline-people', name: 'Inline pushes of people' },
}

// Two first pushes at once: the second waits for the first and then does nothing, and the select finds the row of either.
const ensureInlineText = `
  insert into sync.connector (tenant_id, key, name, type, dataset)
  values ((select tenancy.tenant_id()), $1, $2, 'inline_json', $3)
  on conflict (tenant_id, key) do nothing`

// The row stays as it is but for the time: a run is no change of the connector. Served by connector_key_unique.
const touchInlineText = `
  update sync.connector
  set last_run_at = now()
  where tenant_id = (select tenancy.tenant_id())
    and key = $1
  returning id`

/** Notes that a push of the dataset begins, whose connector the tenant's first such push makes; answers its id. */
export async function touchInlineConnector(tx: Tx, dataset: Connector['dataset']): Promise<string> {
  const { key, name } = inlineConnectors[dataset]
  await tx.execute({ name: 'sync_ensure_inline', text: ensureInlineText, values: [key, name, dataset] })
  const [row] = await tx.query<{ id: string }>({ name: 'sync_touch_inline', text: touchInlineText, values: [key] })
  if (row === undefined) throw new Error('the inline connector is not there')
  return row.id
}

function toConnector(row: ConnectorRow): Connector {
  return {
    id: row.id,
    key: row.key,
    name: row.name,
    type: row.type,
    dataset: row.dataset,
    state: row.state,
    last_run_at: row.last_run_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    version: row.version,
  }
}
