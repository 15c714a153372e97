import { isDeepStrictEqual } from 'node:util'
import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { type Client, escapeIdentifier, escapeLiteral } from 'pg'
import type { TenantTable } from './marked-rows.ts'

/** One statement in three versions, which differ only in whose value a constraint is asked about. */
export interface Probe {
  readonly schema: string
  readonly constraint: string
  readonly kind: 'unique' | 'foreign key'
  readonly ofOther: Version
  /** A value that nobody has. */
  readonly ofNobody: Version
  /** The control: one's own. */
  readonly ofOwn: Version
}

export interface Version {
  readonly text: string
  /** What was put in, which an error may repeat. */
  readonly values: readonly string[]
}

interface Column {
  readonly name: string
  readonly type: string
  readonly isNullable: boolean
}

type Row = Readonly<Record<string, string | null>>

interface Known {
  readonly table: TenantTable
  readonly columns: readonly Column[]
  readonly own: Row
  readonly other: Row
}

/** Asks every unique constraint and every foreign key of the tables whether another tenant has a value. */
export async function findProbes(
  client: Client,
  tables: readonly TenantTable[],
  { own, other }: { readonly own: string; readonly other: string },
): Promise<Probe[]> {
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
  const { rows: constraints } = await client.query<{
    full: string
    name: string
    kind: 'unique' | 'foreign key'
    columns: string[]
    target: string | null
    targets: string[] | null
  }>(
    `select format('"%s"."%s"', n.nspname, c.relname) as full, i.indexrelid::regclass::text as name, 'unique' as kind,
            (select array_agg(attname::text order by attnum) from pg_attribute
              where attrelid = i.indrelid and attnum = any (i.indkey)) as columns,
            null as target, null as targets
       from pg_index as i join pg_class as c on c.oid = i.indrelid join pg_namespace as n on n.oid = c.relnamespace
      where i.indisunique and not 0 = any (i.indkey) and i.indpred is null
     union all
     select format('"%s"."%s"', n.nspname, c.relname), k.conname, 'foreign key',
            (select array_agg(a.attname::text order by o.at) from unnest(k.conkey) with ordinality as o (num, at)
               join pg_attribute as a on a.attrelid = k.conrelid and a.attnum = o.num),
            (select format('"%s"."%s"', fn.nspname, f.relname) from pg_class as f
               join pg_namespace as fn on fn.oid = f.relnamespace where f.oid = k.confrelid),
            (select array_agg(a.attname::text order by o.at) from unnest(k.confkey) with ordinality as o (num, at)
               join pg_attribute as a on a.attrelid = k.confrelid and a.attnum = o.num)
       from pg_constraint as k join pg_class as c on c.oid = k.conrelid join pg_namespace as n on n.oid = c.relnamespace
      where k.contype = 'f' and k.conparentid = 0
      order by 1, 2`,
  )
  return constraints.flatMap(({ full, name, kind, columns, target, targets }): Probe[] => {
    const table = known.get(full)
    const asked = columns.filter((column) => column !== 'tenant_id')
    if (table === undefined || asked.length === 0) return []
    const about = { schema: table.table.schema, constraint: name, kind }
    if (kind === 'unique') {
      const valuesOf = (row: Row): Row => Object.fromEntries(asked.map((column) => [column, row[column] ?? null]))
      const version = (row: Row): Version => inserted(table, valuesOf(row), false)
      // A day on which both have something: it is one's own value that is told then.
      if (isDeepStrictEqual(valuesOf(table.own), valuesOf(table.other))) return []
      return [{ ...about, ofOther: version(table.other), ofNobody: version(fresh(table)), ofOwn: version(table.own) }]
    }
    const pointed = known.get(target ?? '')
    if (pointed === undefined) return []
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
}

/** A row of values that nobody has, where their type lets there be such. */
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

/** A new row of one's own with these values; of the others only those that must be there where it is `sparse`. */
function inserted(known: Known, values: Row, sparse: boolean): Version {
  const row = { ...fresh(known), ...values }
  const given = known.columns.filter(({ name, isNullable }) => name in values || !sparse || !isNullable)
  const names = given.map(({ name }) => escapeIdentifier(name)).join(', ')
  const literals = given.map(({ name, type }) => literal(row[name] ?? null, type)).join(', ')
  return versionOf(`insert into ${known.table.full} (${names}) values (${literals})`, row)
}

/** One's own row with these values in it. */
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
