import { connect } from './connect.ts'

/** In a stable order. Not a runnable dump. */
export async function describeSchema(connectionString: string, schema: string): Promise<string> {
  await using connection = await connect(connectionString)
  const { client } = connection
  // PostgreSQL qualifies names only with an empty search path.
  await client.query("begin read only; set local search_path = ''")
  const parts: string[] = []
  for (const query of [schemaItself, types, sequences, tables, views, functions]) {
    const { rows } = await client.query<{ part: string }>(query, [schema])
    for (const { part } of rows) parts.push(part)
  }
  return `${parts.join('\n\n')}\n`
}

const notOfAnExtension = (catalog: string, oid: string): string =>
  `not exists (select from pg_depend as e where e.classid = '${catalog}'::regclass and e.objid = ${oid} and e.deptype = 'e')`

/** `object` is the SQL expression after "on". */
const grants = (acl: string, owner: string, object: string): string => `
  (select string_agg(format(E'\\ngrant %s on %s to %s;', g.privileges, ${object}, g.grantee), '' order by g.grantee)
     from (select case x.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(x.grantee)) end collate "C" as grantee,
                  string_agg(lower(x.privilege_type), ', ' order by x.privilege_type collate "C") as privileges
             from aclexplode(${acl}) as x
            where x.grantee <> ${owner}
            group by x.grantee) as g)`

const schemaItself = `
select concat(format('create schema %I authorization %I;', n.nspname, pg_get_userbyid(n.nspowner)),
              ${grants('n.nspacl', 'n.nspowner', "format('schema %I', n.nspname)")}) as part
  from pg_namespace as n
 where n.nspname = $1`

const types = `
select case t.typtype
         when 'e' then format('create type %s as enum (%s);', t.oid::regtype,
           (select string_agg(quote_literal(v.enumlabel), ', ' order by v.enumsortorder) from pg_enum as v where v.enumtypid = t.oid))
         else concat(format('create domain %s as %s', t.oid::regtype, format_type(t.typbasetype, t.typtypmod)),
           case when t.typnotnull then ' not null' end,
           (select string_agg(format(E'\\n  constraint %I %s', k.conname, pg_get_constraintdef(k.oid)), '' order by k.conname)
              from pg_constraint as k where k.contypid = t.oid and k.contype = 'c'), ';')
       end as part
  from pg_type as t
  join pg_namespace as n on n.oid = t.typnamespace
 where n.nspname = $1
   and t.typtype in ('e', 'd')
   and ${notOfAnExtension('pg_type', 't.oid')}
 order by t.typname`

const sequences = `
select concat(format('create sequence %s as %s;', c.oid::regclass, s.seqtypid::regtype),
              ${grants('c.relacl', 'c.relowner', "format('sequence %s', c.oid::regclass)")}) as part
  from pg_sequence as s
  join pg_class as c on c.oid = s.seqrelid
  join pg_namespace as n on n.oid = c.relnamespace
 where n.nspname = $1
   and ${notOfAnExtension('pg_class', 'c.oid')}
 order by c.relname`

const columns = `
  select string_agg(x.line, E',\\n' order by x.rank, x.place, x.name)
    from (select 1 as rank, a.attnum::int as place, a.attname as name,
                 concat('  ', quote_ident(a.attname), ' ', format_type(a.atttypid, a.atttypmod),
                        case when a.attnotnull then ' not null' end,
                        case when a.attgenerated = 's' then format(' generated always as (%s) stored', pg_get_expr(d.adbin, d.adrelid))
                             when a.attgenerated = 'v' then format(' generated always as (%s)', pg_get_expr(d.adbin, d.adrelid))
                             when a.attidentity <> '' then ' generated as identity'
                             when d.oid is not null then format(' default %s', pg_get_expr(d.adbin, d.adrelid)) end) as line
            from pg_attribute as a
            left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
           where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          union all
          select 2, position(k.contype::text in 'puxcf'), k.conname,
                 format('  constraint %I %s', k.conname, pg_get_constraintdef(k.oid))
            from pg_constraint as k
           where k.conrelid = c.oid and k.contype in ('p', 'u', 'x', 'c', 'f')) as x`

const tables = `
select concat(
    format(E'create table %s (\\n%s\\n)', c.oid::regclass, (${columns})),
    case when c.relkind = 'p' then format(' partition by %s', pg_get_partkeydef(c.oid)) end,
    ';',
    case when pg_get_userbyid(c.relowner) <> 'postern_owner'
         then format(E'\\nalter table %s owner to %I;', c.oid::regclass, pg_get_userbyid(c.relowner)) end,
    (select string_agg(format(E'\\n%s;', pg_get_indexdef(i.indexrelid)), '' order by x.relname)
       from pg_index as i
       join pg_class as x on x.oid = i.indexrelid
      where i.indrelid = c.oid
        and not exists (select from pg_constraint as k where k.conindid = i.indexrelid and k.conrelid = c.oid and k.contype in ('p', 'u', 'x'))),
    (select string_agg(format(E'\\n%s;', pg_get_triggerdef(g.oid)), '' order by g.tgname)
       from pg_trigger as g
      where g.tgrelid = c.oid and not g.tgisinternal),
    case when c.relrowsecurity then format(E'\\nalter table %s enable row level security;', c.oid::regclass) end,
    case when c.relforcerowsecurity then format(E'\\nalter table %s force row level security;', c.oid::regclass) end,
    (select string_agg(concat(
              format(E'\\ncreate policy %I on %s as %s for %s to %s', p.polname, c.oid::regclass,
                     case when p.polpermissive then 'permissive' else 'restrictive' end,
                     case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
                     (select string_agg(r.name, ', ' order by r.name)
                        from (select case role when 0 then 'public' else quote_ident(pg_get_userbyid(role)) end collate "C" as name
                                from unnest(p.polroles) as role) as r)),
              ' using (' || pg_get_expr(p.polqual, p.polrelid) || ')',
              ' with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', ';'), '' order by p.polname)
       from pg_policy as p
      where p.polrelid = c.oid),
    ${grants('c.relacl', 'c.relowner', "format('table %s', c.oid::regclass)")},
    (select string_agg(format(E'\\ngrant %s (%I) on table %s to %s;', lower(x.privilege_type), a.attname, c.oid::regclass,
                              quote_ident(pg_get_userbyid(x.grantee))), '' order by pg_get_userbyid(x.grantee), a.attnum, x.privilege_type)
       from pg_attribute as a
      cross join aclexplode(a.attacl) as x
      where a.attrelid = c.oid and x.grantee <> c.relowner),
    (select string_agg(case o.objsubid when 0 then format(E'\\ncomment on table %s is %L;', c.oid::regclass, o.description)
                            else format(E'\\ncomment on column %s.%I is %L;', c.oid::regclass,
                                        (select a.attname from pg_attribute as a where a.attrelid = c.oid and a.attnum = o.objsubid), o.description)
                       end, '' order by o.objsubid)
       from pg_description as o
      where o.classoid = 'pg_class'::regclass and o.objoid = c.oid)
  ) as part
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
 where n.nspname = $1
   and c.relkind in ('r', 'p')
   and ${notOfAnExtension('pg_class', 'c.oid')}
 order by c.relname`

const views = `
select concat(format('create %s %s%s as', case c.relkind when 'm' then 'materialized view' else 'view' end, c.oid::regclass,
                     ' with (' || array_to_string(c.reloptions, ', ') || ')'),
              E'\\n', pg_get_viewdef(c.oid),
              ${grants('c.relacl', 'c.relowner', "format('table %s', c.oid::regclass)")}) as part
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
 where n.nspname = $1
   and c.relkind in ('v', 'm')
   and ${notOfAnExtension('pg_class', 'c.oid')}
 order by c.relname`

const functions = `
select concat(rtrim(pg_get_functiondef(p.oid), E'\\n'), ';',
              case when pg_get_userbyid(p.proowner) <> 'postern_owner'
                   then format(E'\\nalter routine %s owner to %I;', p.oid::regprocedure, pg_get_userbyid(p.proowner)) end,
              ${grants("coalesce(p.proacl, acldefault('f', p.proowner))", 'p.proowner', "format('routine %s', p.oid::regprocedure)")}) as part
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
 where n.nspname = $1
   and p.prokind in ('f', 'p')
   and ${notOfAnExtension('pg_proc', 'p.oid')}
 order by p.proname, p.oid::regprocedure::text collate "C"`
