import { isDeepStrictEqual } from 'node:util'
import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { type Client, escapeIdentifier, escapeLiteral } from 'pg'
import type { TenantTable } from './marked-rows.ts'

/** A statement in three versions that differ only in the owner of the probed value. */
export interface Probe {
  readonly schema: string
  readonly constraint: string
  readonly kind: 'unique' | 'foreign key'
  /** Whether the index is partial or on an expression. */
  readonly isPartial: boolean
  readonly ofOther: Version
  /** With an unused value. */
  readonly ofNobody: Version
  /** Control: with the tenant's own value. */
  readonly ofOwn: Version
}

export interface Version {
  readonly text: string
  /** The inserted values, which an error may repeat. */
  readonly values: readonly string[]
}

interface Column {
  readonly name: string
  readonly type: string
  readonly isNullable: boolean
}

type Row = Readonly<Record<string, string | null>>

/** The values that put a row into a partial index, equal for both tenants or different. */
interface Among {
  readonly own: Row
  readonly other: Row
}

const both = (row: Row): Among => ({ own: row, other: row })

/** The search fails for a partial index without an entry here, so that none is missed. */
const among: Readonly<Record<string, Among>> = {
  'evidence.file_decision_one_verdict': both({ kind: 'reviewed' }),
  'evidence.upload_piece_one_open': both({ length: null }),
  'sync.run_one_a_connector': both({ source: 'connector', status: 'queued' }),
  'sync.scim_user_external_id': both({ deleted_at: null }),
  'sync.scim_user_person_key': both({ deleted_at: null }),
  'sync.scim_user_user_name': both({ deleted_at: null }),
  'tenancy.change_batch_open': { own: { made_by: '7' }, other: { made_by: '8' } },
  // The own row has no value: does the error reveal the other's?
  'universe.hierarchy_one_primary': { own: { is_primary: 'false' }, other: { is_primary: 'true' } },
}

/** Initial values that triggers require before constraints are checked. */
const beginnings: Readonly<Record<string, Row>> = {
  '"findings"."finding"': { status: 'draft' },
  '"findings"."recommendation"': { status: 'submitted' },
  '"findings"."action_plan"': {
    status: 'proposed',
    due_on: '2999-01-01',
    original_due_on: '2999-01-01',
    extension_count: '0',
  },
  '"keys"."api_key"': {
    revoked_at: null,
    last_used_at: null,
    last_refused_at: null,
    version: '1',
    created_at: '2020-01-01',
    expires_at: '2020-01-02',
  },
}

interface Known {
  readonly table: TenantTable
  readonly columns: readonly Column[]
  readonly own: Row
  readonly other: Row
}

/** Puts each tenant's row into the partial indexes, bypassing triggers. */
async function putAmong(
  client: Client,
  { own, other }: { readonly own: string; readonly other: string },
): Promise<void> {
  const { rows } = await client.query<{ name: string; full: string }>(
    `select i.indexrelid::regclass::text as name, i.indrelid::regclass::text as full
       from pg_index as i join pg_class as c on c.oid = i.indrelid
      where i.indisunique and i.indpred is not null and c.relnamespace::regnamespace::text <> 'pg_catalog'
        and exists (select from pg_attribute where attrelid = c.oid and attname = 'tenant_id')`,
  )
  await client.query('begin; set local session_replication_role = replica')
  for (const { name, full } of rows) {
    const rowOf = among[name]
    if (rowOf === undefined) throw new Error(`nobody knows which rows ${name} is about`)
    for (const [tenant, row] of [
      [own, rowOf.own],
      [other, rowOf.other],
    ] as const) {
      const sets = Object.entries(row).map(([column, value]) => {
        return `${escapeIdentifier(column)} = ${value === null ? 'null' : escapeLiteral(value)}`
      })
      await client.query(`update ${full} set ${sets.join(', ')} where tenant_id = ${escapeLiteral(tenant)}`)
    }
  }
  await client.query('commit')
}

/** The probes, and the constraints that cannot reveal another tenant, with the reason. */
export interface Probes {
  readonly probes: readonly Probe[]
  readonly unasked: Readonly<
    Record<'no tenant' | 'one row a tenant' | 'target has no tenant' | 'same for both', string[]>
  >
}

/**
 * Returns probes of every unique index and foreign key for values of another tenant. Changes both tenants' rows so that
 * partial indexes contain them.
 */
export async function findProbes(
  client: Client,
  tables: readonly TenantTable[],
  { own, other }: { readonly own: string; readonly other: string },
): Promise<Probes> {
  await putAmong(client, { own, other })
  const known = new Map<string, Known>()
  for (const table of tables) {
    const { rows: columns } = await client.query<Column>(
      `select attname as name, format_type(atttypid, null) as type, not attnotnull as "isNullable"
         from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped
          and attgenerated = '' and attidentity = '' order by attnum`,
      [table.full],
    )
    const list = columns.map(({ name }) => `${escapeIdentifier(name)}::text`).join(', ')
    const rowOf = async (tenant: string): Promise<Row> =>
      (await client.query<Row>(`select ${list} from ${table.full} where tenant_id = $1`, [tenant])).rows[0] ?? {}
    known.set(table.full, { table, columns, own: await rowOf(own), other: await rowOf(other) })
  }
  // Excludes the queue, which has no tenants and is visible to sync.
  const { rows: constraints } = await client.query<{
    full: string
    name: string
    kind: 'unique' | 'foreign key'
    isPartial: boolean
    columns: string[]
    target: string | null
    targets: string[] | null
  }>(
    `select format('"%s"."%s"', n.nspname, c.relname) as full, i.indexrelid::regclass::text as name, 'unique' as kind,
            i.indpred is not null or i.indexprs is not null as "isPartial",
            -- Also those that its expressions and its condition name.
            (select array_agg(attname::text order by attnum) from pg_attribute
              where attrelid = i.indrelid and (attnum = any (i.indkey) or attnum in (
                select d.refobjsubid from pg_depend as d
                 where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
                   and d.refclassid = 'pg_class'::regclass and d.refobjid = i.indrelid and d.refobjsubid > 0
              ))) as columns,
            null as target, null as targets
       from pg_index as i join pg_class as c on c.oid = i.indrelid join pg_namespace as n on n.oid = c.relnamespace
      where i.indisunique and n.nspname not in ('pg_catalog', 'pg_toast', 'queue')
     union all
     select format('"%s"."%s"', n.nspname, c.relname), k.conname, 'foreign key', false,
            (select array_agg(a.attname::text order by o.at) from unnest(k.conkey) with ordinality as o (num, at)
               join pg_attribute as a on a.attrelid = k.conrelid and a.attnum = o.num),
            (select format('"%s"."%s"', fn.nspname, f.relname) from pg_class as f
               join pg_namespace as fn on fn.oid = f.relnamespace where f.oid = k.confrelid),
            (select array_agg(a.attname::text order by o.at) from unnest(k.confkey) with ordinality as o (num, at)
               join pg_attribute as a on a.attrelid = k.confrelid and a.attnum = o.num)
       from pg_constraint as k join pg_class as c on c.oid = k.conrelid join pg_namespace as n on n.oid = c.relnamespace
      where k.contype = 'f' and k.conparentid = 0 and n.nspname <> 'queue'
      order by 1, 2`,
  )
  const unasked: Probes['unasked'] = {
    'no tenant': [],
    'one row a tenant': [],
    'target has no tenant': [],
    'same for both': [],
  }
  const probes = constraints.flatMap(({ full, name, kind, isPartial, columns, target, targets }): Probe[] => {
    const table = known.get(full)
    const asked = columns.filter((column) => column !== 'tenant_id')
    const cannot = (why: keyof Probes['unasked']): [] => {
      unasked[why].push(name)
      return []
    }
    if (table === undefined) return cannot('no tenant')
    if (asked.length === 0) return cannot('one row a tenant')
    const about = { schema: table.table.schema, constraint: name, kind, isPartial }
    if (kind === 'unique') {
      const valuesOf = (row: Row): Row => Object.fromEntries(asked.map((column) => [column, row[column] ?? null]))
      const version = (row: Row): Version => inserted(table, valuesOf(row), false)
      // A day on which both have rows, so that the own value is reported.
      if (isDeepStrictEqual(valuesOf(table.own), valuesOf(table.other))) return cannot('same for both')
      // Unused values are in those rows too.
      const nobody = { ...fresh(table), ...among[name]?.own, ...madeBy(table) }
      return [{ ...about, ofOther: version(table.other), ofNobody: version(nobody), ofOwn: version(table.own) }]
    }
    const pointed = known.get(target ?? '')
    if (pointed === undefined) return cannot('target has no tenant')
    const valuesOf = (row: Row): Row =>
      Object.fromEntries(
        columns.flatMap((column, at) =>
          column === 'tenant_id' ? [] : [[column, row[targets?.[at] ?? ''] ?? null] as const],
        ),
      )
    return [updated, (mine: Known, values: Row) => inserted(mine, values, true)].map((make) => ({
      ...about,
      ofOther: make(table, valuesOf(pointed.other)),
      ofNobody: make(table, valuesOf(fresh(pointed))),
      ofOwn: make(table, valuesOf(pointed.own)),
    }))
  })
  return { probes, unasked }
}

/** The transaction distinguishes batches of changes. */
function madeBy({ columns }: Known): Row {
  return columns.some(({ name, type }) => name === 'made_by' && type === 'xid8')
    ? { made_by: String(randomInt(10_000, 30_000)) }
    : {}
}

/** Returns a row of unused values, as far as types allow. */
function fresh({ columns, own }: Known): Row {
  return Object.fromEntries(
    columns.map(({ name, type }) => {
      if (name === 'tenant_id') return [name, own[name] ?? null]
      if (type === 'uuid') return [name, randomUUID()]
      if (type === 'text') return [name, `probe-${randomUUID()}`]
      if (type === 'bytea') return [name, `\\x${randomBytes(32).toString('hex')}`]
      if (['smallint', 'integer', 'bigint'].includes(type)) return [name, String(randomInt(10_000, 30_000))]
      if (type === 'uuid[]') return [name, `{${randomUUID()}}`]
      if (type === 'text[]') return [name, `{probe-${randomUUID()}}`]
      if (type === 'integer[]') return [name, `{${randomInt(10_000, 30_000)}}`]
      if (type === 'date' || type.startsWith('timestamp')) {
        return [name, new Date(randomInt(1_000_000) * 3_600_000).toISOString().slice(0, type === 'date' ? 10 : 19)]
      }
      return [name, own[name] ?? null]
    }),
  )
}

/** Returns an insert of an own row with these values; `sparse`: only required columns. */
function inserted(known: Known, values: Row, sparse: boolean): Version {
  const begun = { ...beginnings[known.table.full], ...values }
  const row = { ...fresh(known), ...begun }
  const given = known.columns.filter(({ name, isNullable }) => name in begun || !sparse || !isNullable)
  const names = given.map(({ name }) => escapeIdentifier(name)).join(', ')
  const literals = given.map(({ name, type }) => literal(row[name] ?? null, type)).join(', ')
  return versionOf(`insert into ${known.table.full} (${names}) values (${literals})`, row)
}

/** Returns an update of the own row with these values. */
function updated({ table, columns }: Known, values: Row): Version {
  const sets = columns.flatMap(({ name, type }) =>
    name in values ? [`${escapeIdentifier(name)} = ${literal(values[name] ?? null, type)}`] : [],
  )
  return versionOf(`update ${table.full} set ${sets.join(', ')}`, values)
}

function versionOf(text: string, row: Row): Version {
  return { text, values: Object.values(row).flatMap((value) => (value === null || value === '' ? [] : [value])) }
}

function literal(value: string | null, type: string): string {
  return value === null ? 'null' : `${escapeLiteral(value)}::${type}`
}
