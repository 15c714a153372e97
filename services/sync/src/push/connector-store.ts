import type { Connector } from '@postern/contracts'
import type { Tx } from '@postern/tenant-db'
import { getRow, statement } from '../sql/store.ts'

const inlineConnectors: Readonly<Record<Connector['dataset'], { readonly key: string; readonly name: string }>> = {
  auditable_entities: { key: 'inline', name: 'Inline pushes' },
  org_structure: { key: 'inline-org-structures', name: 'Inline pushes of hierarchies' },
  test_procedures: { key: 'inline-test-procedures', name: 'Inline pushes of test procedures' },
  people: { key: 'inline-people', name: 'Inline pushes of people' },
}

const scimConnector = { key: 'scim-inbound', name: 'Identity provider (SCIM)' } as const

export const reservedKeys: ReadonlySet<string> = new Set([
  scimConnector.key,
  ...Object.values(inlineConnectors).map(({ key }) => key),
])

// Concurrent first pushes insert one row. Runs only if there is no row, because `on conflict` would wait for a push
// that sets the time.
const ensureInline = statement(
  'sync_ensure_inline',
  `insert into sync.connector (tenant_id, key, name, type, dataset)
  values ((select tenancy.tenant_id()), $1, $2, $4, $3)
  on conflict (tenant_id, key) do nothing`,
)

// Skips a locked row: another push is setting the time.
const touchInline = statement(
  'sync_touch_inline',
  `with free as (
    select c.id
    from sync.connector c
    where c.key = $1
    for no key update skip locked
  ), touched as (
    update sync.connector c
    set last_run_at = now()
    from free
    where c.id = free.id
  )
  select c.id from sync.connector c where c.key = $1`,
)

/** Records the time of a push and returns the connector's id. The first push of a dataset creates the connector. */
export async function touchInlineConnector(tx: Tx, dataset: Connector['dataset']): Promise<string> {
  return await touch(tx, { ...inlineConnectors[dataset], dataset, type: 'inline_json' })
}

export async function touchScimConnector(tx: Tx): Promise<string> {
  return await touch(tx, { ...scimConnector, dataset: 'people', type: 'scim_inbound' })
}

async function touch(
  tx: Tx,
  { key, name, dataset, type }: Pick<Connector, 'key' | 'name' | 'dataset' | 'type'>,
): Promise<string> {
  const [row] = await tx.query<{ id: string }>(touchInline([key]))
  if (row !== undefined) return row.id
  await tx.execute(ensureInline([key, name, dataset, type]))
  return getRow(await tx.query<{ id: string }>(touchInline([key]))).id
}
