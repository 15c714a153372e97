import type { Client } from 'pg'

/** The error of a planted function, raised if it is found by an unqualified name. */
export const fooledState = 'PFOOL'

/** A SECURITY DEFINER function that a role may call. */
export interface DefinerFunction {
  readonly name: string
  /** A call with a value for each argument. */
  readonly call: string
}

const values: Readonly<Record<string, string>> = {
  uuid: "'0199a000-0000-7000-8000-000000000001'",
  text: "'x'",
  bytea: "'\\x00'",
  boolean: 'true',
  integer: '1',
  bigint: '1',
  jsonb: `'{}'`,
  interval: "'1 second'",
  'timestamp with time zone': "'2026-01-01T00:00:00Z'",
}

/** Returns all SECURITY DEFINER functions except triggers, with a call for each. */
export async function findDefinerFunctions(client: Client): Promise<DefinerFunction[]> {
  const { rows } = await client.query<{ name: string; types: string[] }>(
    `select format('%I.%I', n.nspname, p.proname) as name,
            array(select format_type(t, null) from unnest(p.proargtypes) with ordinality as a (t, at) order by at) as types
       from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
      where p.prosecdef and p.prorettype <> 'trigger'::regtype and n.nspname not in ('pg_catalog', 'information_schema')
      order by 1`,
  )
  return rows.map(({ name, types }) => {
    const given = types.map((type) => `${values[type] ?? (type.endsWith('[]') ? "'{}'" : 'null')}::${type}`)
    return { name, call: `select ${name}(${given.join(', ')})` }
  })
}

/**
 * Creates the public schema `hostile` with copies of every table, function and operator that such functions use; the
 * copies raise `fooledState`. The control is `hostile.careless()`, a definer function without its own search_path.
 */
export async function plantHostileSchema(client: Client): Promise<number> {
  await client.query('create schema hostile; grant usage on schema hostile to public')
  const { rows } = await client
    .query<{ planted: number }>(
      `create function pg_temp.plant() returns integer language plpgsql as $plant$
     declare item record; planted integer := 0;
     begin
       for item in
         select p.proname, pg_get_function_arguments(p.oid) as arguments, pg_get_function_result(p.oid) as result
           from pg_proc as p
          where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f'
            and exists (select from pg_proc as d join pg_namespace as n on n.oid = d.pronamespace
                         where d.prosecdef and n.nspname not in ('pg_catalog', 'information_schema')
                           and d.prosrc ~ ('\\m' || p.proname || '\\s*\\('))
       loop
         begin
           execute format('create function hostile.%I(%s) returns %s language plpgsql as $f$ begin raise exception ''fooled'' using errcode = ''${fooledState}''; end $f$',
                          item.proname, item.arguments, item.result);
           planted := planted + 1;
         exception when others then null; -- Some types are for built-in functions alone.
         end;
       end loop;
       for item in select distinct oprname, oprleft::regtype as l, oprright::regtype as r from pg_operator
                    where oprname in ('=', '<>', '<', '>', '<=', '>=', '||', '+', '-') and oprleft <> 0
                      and oprleft::regtype::text in ('text', 'uuid', 'bytea', 'bigint', 'integer', 'timestamp with time zone', 'interval')
       loop
         begin
           execute format('create function hostile.operate(%s, %s) returns boolean language plpgsql as $f$ begin raise exception ''fooled'' using errcode = ''${fooledState}''; end $f$', item.l, item.r);
         exception when duplicate_function then null;
         end;
         execute format('create operator hostile.%s (function = hostile.operate, leftarg = %s, rightarg = %s)', item.oprname, item.l, item.r);
         planted := planted + 1;
       end loop;
       for item in select distinct c.relname from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
                    where c.relkind = 'r' and n.nspname in ('tenancy', 'keys', 'sync')
       loop
         execute format('create view hostile.%I as select hostile.operate(1, 1) as key_id, hostile.operate(1, 1) as tenant_id', item.relname);
         execute format('grant select on hostile.%I to public', item.relname);
         planted := planted + 1;
       end loop;
       return planted;
     end $plant$;
     create function hostile.careless() returns boolean language plpgsql security definer as $c$ begin return md5('x') = 'x'; end $c$;
     grant execute on all functions in schema hostile to public;`,
    )
    .then(async () => await client.query<{ planted: number }>('select pg_temp.plant() as planted'))
  await client.query('grant execute on all functions in schema hostile to public')
  return rows[0]?.planted ?? 0
}
