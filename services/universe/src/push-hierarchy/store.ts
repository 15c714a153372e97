import { type CreatedBy, type PushedNode, maxNodeDepth } from '@postern/contracts'
import type { ApplyHierarchyBody } from '@postern/contracts/internal'
import { type Tx, statement } from '@postern/tenant-db'
import { compareAsSets } from '../list/store.ts'
import { maxFaults } from '../push/rules.ts'
import { lockTree } from '../push/store.ts'

export type { Tx } from '@postern/tenant-db'

export interface OpenHierarchy {
  readonly id: string
  readonly next: number
  readonly runId: string
  readonly mode: 'full' | 'partial'
}

/** Locks the tenant's trees, and creates or renames the hierarchy. A tenant's first one is primary. */
export async function openHierarchy(
  tx: Tx,
  { key, name, kind, is_primary, run_id: runId, mode }: ApplyHierarchyBody,
  createdBy: CreatedBy,
): Promise<OpenHierarchy> {
  await lockTree(tx)
  await tx.execute(makeHierarchy([key, name, kind, createdBy.type, createdBy.id, createdBy.label]))
  if (is_primary === true) {
    await tx.execute(unsetPrimary([key]))
    await tx.execute(setPrimary([key]))
  }
  await tx.execute(renameHierarchy([key, name, kind]))
  const [row] = await tx.query<{ id: string; version: number }>(findHierarchy([key]))
  if (row === undefined) throw new Error('the hierarchy was not created')
  return { id: row.id, next: row.version + 1, runId, mode }
}

const rowsAtOnce = 5000

export async function stageNodes(tx: Tx, { id, runId }: OpenHierarchy, nodes: readonly PushedNode[]): Promise<void> {
  await compareAsSets(tx)
  for (let start = 0; start < nodes.length; start += rowsAtOnce) {
    const rows = nodes.slice(start, start + rowsAtOnce).map((node, at) => toRow(node, start + at))
    await tx.execute(stage([JSON.stringify(rows), runId, id]))
  }
}

/** In a partial push, the parent may be stored. */
export async function listOrphans(tx: Tx, { id, runId, mode }: OpenHierarchy): Promise<number[]> {
  const rows = await tx.query<{ index: number }>(orphans([runId, id, mode === 'partial', maxFaults]))
  return rows.map(({ index }) => index)
}

/** `place` counts from 0. */
export async function listUnknownEntities(
  tx: Tx,
  { runId }: OpenHierarchy,
): Promise<{ readonly index: number; readonly place: number }[]> {
  return await tx.query(unknownEntities([runId, maxFaults]))
}

export interface PushOutcome {
  readonly created: number
  readonly updated: number
  readonly deactivated: number
  /** If there are any, the transaction must not be committed. */
  readonly misplaced: readonly { readonly index: number; readonly fault: 'cycle' | 'too-deep' }[]
}

/** A full push deactivates missing nodes. */
export async function applyNodes(tx: Tx, hierarchy: OpenHierarchy, rows: number): Promise<PushOutcome> {
  const { id, runId, next, mode } = hierarchy
  let created = 0
  for (let start = 0; start < rows; start += rowsAtOnce) {
    created += await tx.execute(insertNew([runId, id, next, start, start + rowsAtOnce, maxNodeDepth]))
  }
  const updated = await tx.execute(updateKnown([runId, id, next]))
  const deactivated = mode === 'full' ? await tx.execute(deactivateAbsent([runId, id, next])) : 0
  let misplaced: PushOutcome['misplaced'] = []
  if (created + updated > 0) {
    const [placed] = await tx.query<{ is_tree: boolean }>(place([id, next, maxNodeDepth]))
    if (placed?.is_tree !== true) misplaced = await tx.query(misplacedRows([id, runId, maxNodeDepth, maxFaults]))
  }
  if (created + updated + deactivated > 0) {
    await tx.execute(raiseVersion([id, next, runId]))
    await tx.execute(recordVersion([id, next, runId]))
  }
  await tx.execute(unstage([runId]))
  return { created, updated, deactivated, misplaced }
}

function toRow(node: PushedNode, index: number): object {
  const { entities, ...same } = node
  return { index, ...same, entity_keys: entities }
}

const makeHierarchy = statement(
  'universe_make_hierarchy',
  `insert into universe.hierarchy (
    tenant_id, key, name, kind, is_primary, created_by_type, created_by_id, created_by_label
  )
  select
    (select tenancy.tenant_id()), $1::text, $2::text, $3::text,
    not exists (select from universe.hierarchy other where other.is_primary), $4::text, $5::text, $6::text
  on conflict (tenant_id, key) do nothing`,
)

const unsetPrimary = statement(
  'universe_unset_primary_hierarchy',
  `update universe.hierarchy h set is_primary = false, updated_at = now() where h.is_primary and h.key <> $1::text`,
)

const setPrimary = statement(
  'universe_set_primary_hierarchy',
  `update universe.hierarchy h set is_primary = true, updated_at = now() where not h.is_primary and h.key = $1::text`,
)

const renameHierarchy = statement(
  'universe_rename_hierarchy',
  `update universe.hierarchy h
  set name = $2::text, kind = $3::text, updated_at = now()
  where h.key = $1::text and (h.name, h.kind) is distinct from ($2::text, $3::text)`,
)

const findHierarchy = statement(
  'universe_open_hierarchy',
  'select h.id, h.version from universe.hierarchy h where h.key = $1::text for update',
)

// Every row gets its id first, so that children may precede parents.
const stage = statement(
  'universe_stage_nodes',
  `insert into universe.staged_node (
    tenant_id, run_id, index, node_id, is_new, node_key, parent_key, name, level_name, head, status, valid_from, valid_to,
    entity_keys
  )
  select
    (select tenancy.tenant_id()), $2::uuid, pushed.index, coalesce(known.id, uuidv7()), known.id is null,
    pushed.node_key, pushed.parent_key, pushed.name, pushed.level_name, pushed.head, pushed.status, pushed.valid_from,
    pushed.valid_to, coalesce(pushed.entity_keys, '{}')
  from jsonb_to_recordset($1::jsonb) as pushed (
    index integer, node_key text, parent_key text, name text, level_name text, head jsonb, status text, valid_from date,
    valid_to date, entity_keys text[]
  )
  left join universe.node known on known.hierarchy_id = $3::uuid and known.node_key = pushed.node_key`,
)

const orphans = statement(
  'universe_orphaned_nodes',
  `select s.index
  from universe.staged_node s
  where s.run_id = $1::uuid
    and s.parent_key is not null
    and not exists (
      select from universe.staged_node parent where parent.run_id = s.run_id and parent.node_key = s.parent_key
    )
    and not (
      $3::boolean
      and exists (
        select from universe.node parent where parent.hierarchy_id = $2::uuid and parent.node_key = s.parent_key
      )
    )
  order by s.index
  limit $4`,
)

// Compared as a set, because a join for each row would read all entities each time.
const named = `
  named as materialized (
    select s.index, one.key, one.at
    from universe.staged_node s
    cross join unnest(s.entity_keys) with ordinality as one (key, at)
    where s.run_id = $1::uuid
  )`

const unknownEntities = statement(
  'universe_unknown_entities_of_nodes',
  `with ${named}
  select named.index, (named.at - 1)::integer as place
  from named
  where not exists (select from universe.entity e where e.external_id = named.key)
  order by named.index, named.at
  limit $2`,
)

const linked = `
  ${named},
  linked as materialized (
    select named.index, array_agg(e.id order by named.at) as entity_ids
    from named
    join universe.entity e on e.external_id = named.key
    group by named.index
  )`

// `universe_place_nodes` corrects a path that is wrong.
const insertNew = statement(
  'universe_insert_nodes',
  `with recursive ${linked},
  placed (node_key, path) as (
    select s.node_key, coalesce(stored.path, '') || universe.path_label(h.last_number + s.index + 1)
    from universe.staged_node s
    join universe.hierarchy h on h.tenant_id = s.tenant_id and h.id = $2::uuid
    left join universe.node stored
      on stored.tenant_id = s.tenant_id and stored.hierarchy_id = h.id and stored.node_key = s.parent_key
    where s.run_id = $1::uuid
      and s.is_new
      and not exists (
        select
        from universe.staged_node above
        where above.run_id = s.run_id and above.node_key = s.parent_key and above.is_new
      )
    union all
    select s.node_key, placed.path || universe.path_label(h.last_number + s.index + 1)
    from placed
    join universe.staged_node s on s.parent_key = placed.node_key and s.run_id = $1::uuid and s.is_new
    join universe.hierarchy h on h.tenant_id = s.tenant_id and h.id = $2::uuid
  )
  insert into universe.node (
    tenant_id, id, hierarchy_id, number, node_key, parent_id, name, level_name, head, status, valid_from, valid_to,
    entity_ids, path, since_version
  )
  select
    s.tenant_id, s.node_id, h.id, h.last_number + s.index + 1, s.node_key, coalesce(pushed.node_id, stored.id), s.name,
    s.level_name, s.head, s.status, s.valid_from, s.valid_to, coalesce(linked.entity_ids, '{}'),
    case when char_length(placed.path) <= $6::integer * 8 then placed.path else right(placed.path, 8) end, $3::integer
  from universe.staged_node s
  join universe.hierarchy h on h.tenant_id = s.tenant_id and h.id = $2::uuid
  join placed on placed.node_key = s.node_key
  left join universe.staged_node pushed
    on pushed.tenant_id = s.tenant_id and pushed.run_id = s.run_id and pushed.node_key = s.parent_key
  left join universe.node stored
    on stored.tenant_id = s.tenant_id and stored.hierarchy_id = h.id and stored.node_key = s.parent_key
  left join linked on linked.index = s.index
  where s.run_id = $1::uuid and s.is_new and s.index >= $4::integer and s.index < $5::integer`,
)

const updateKnown = statement(
  'universe_update_nodes',
  `with ${linked},
  wanted as materialized (
    select
      s.tenant_id, s.node_id, coalesce(pushed.node_id, stored.id) as parent_id, s.name, s.level_name, s.head, s.status,
      s.valid_from, s.valid_to, coalesce(linked.entity_ids, '{}') as entity_ids
    from universe.staged_node s
    left join universe.staged_node pushed
      on pushed.tenant_id = s.tenant_id and pushed.run_id = s.run_id and pushed.node_key = s.parent_key
    left join universe.node stored
      on stored.tenant_id = s.tenant_id and stored.hierarchy_id = $2::uuid and stored.node_key = s.parent_key
    left join linked on linked.index = s.index
    where s.run_id = $1::uuid and not s.is_new
  )
  update universe.node n
  set
    parent_id = wanted.parent_id, name = wanted.name, level_name = wanted.level_name, head = wanted.head,
    status = wanted.status, valid_from = wanted.valid_from, valid_to = wanted.valid_to, entity_ids = wanted.entity_ids,
    since_version = $3::integer
  from wanted
  where n.tenant_id = wanted.tenant_id and n.id = wanted.node_id
    and (n.parent_id, n.name, n.level_name, n.head, n.status, n.valid_from, n.valid_to, n.entity_ids)
      is distinct from (
        wanted.parent_id, wanted.name, wanted.level_name, wanted.head, wanted.status, wanted.valid_from,
        wanted.valid_to, wanted.entity_ids)`,
)

const deactivateAbsent = statement(
  'universe_deactivate_nodes',
  `update universe.node n
  set status = 'inactive', since_version = $3::integer
  where n.hierarchy_id = $2::uuid
    and n.status = 'active'
    and not exists (
      select from universe.staged_node s where s.run_id = $1::uuid and s.node_key = n.node_key
    )`,
)

// Walks down from the roots and corrects changed paths. Nodes that are not reached are in a circle.
const place = statement(
  'universe_place_nodes',
  `with recursive placed as (
    select root.id, universe.path_label(root.number) as path, 1 as depth
    from universe.node root
    where root.hierarchy_id = $1::uuid and root.parent_id is null
    union all
    select child.id, placed.path || universe.path_label(child.number), placed.depth + 1
    from placed
    join universe.node child on child.hierarchy_id = $1::uuid and child.parent_id = placed.id
    where placed.depth <= $3::integer
  ),
  moved as (
    update universe.node n
    set path = placed.path, since_version = $2::integer
    from placed
    where n.id = placed.id and n.path <> placed.path and placed.depth <= $3::integer
  )
  select
    max(placed.depth) <= $3::integer
      and count(*) = (select count(*) from universe.node n where n.hierarchy_id = $1::uuid) as is_tree
  from placed`,
)

// If a branch is too deep, the nearest pushed row above is reported.
const misplacedRows = statement(
  'universe_misplaced_nodes',
  `with recursive placed as (
    select root.id, 1 as depth, s.index
    from universe.node root
    left join universe.staged_node s on s.run_id = $2::uuid and s.node_key = root.node_key
    where root.hierarchy_id = $1::uuid and root.parent_id is null
    union all
    select child.id, placed.depth + 1, coalesce(s.index, placed.index)
    from placed
    join universe.node child on child.hierarchy_id = $1::uuid and child.parent_id = placed.id
    left join universe.staged_node s on s.run_id = $2::uuid and s.node_key = child.node_key
    where placed.depth <= $3::integer
  )
  select placed.index, 'too-deep' as fault
  from placed
  where placed.depth > $3::integer and placed.index is not null
  union
  select s.index, 'cycle'
  from universe.staged_node s
  where s.run_id = $2::uuid
    and not exists (select from placed where placed.id = s.node_id)
    and not exists (select from placed where placed.depth > $3::integer)
  order by index
  limit $4`,
)

const raiseVersion = statement(
  'universe_raise_hierarchy_version',
  `update universe.hierarchy h
  set
    version = $2::integer,
    last_number = h.last_number
      + coalesce((select max(s.index) + 1 from universe.staged_node s where s.run_id = $3::uuid and s.is_new), 0),
    node_count = (select count(*) from universe.node n where n.hierarchy_id = h.id and n.status = 'active'),
    updated_at = now()
  where h.id = $1::uuid`,
)

const recordVersion = statement(
  'universe_record_hierarchy_version',
  `insert into universe.hierarchy_version (tenant_id, hierarchy_id, version, run_id)
  values ((select tenancy.tenant_id()), $1::uuid, $2::integer, $3::uuid)`,
)

const unstage = statement('universe_unstage_nodes', 'delete from universe.staged_node s where s.run_id = $1::uuid')
