/** A comment at each query says what it forbids. */
export type CatalogRule = 'C1' | 'C2' | 'C3' | 'C4' | 'C5' | 'C6' | 'C7' | 'C8' | 'C9' | 'C10' | 'C11' | 'C12' | 'C13'

/** Common table expressions of the rules. Objects of extensions are excluded. */
export const commonTableExpressions = `
with argument as (
  select $1::text[] as tables, $2::text[] as functions, $3::text[] as indexes, $4::name[] as runtime,
         $5::name as owner, $6::name as migrator, $7::jsonb as definers, $8::text as condition,
         $9::jsonb as second_logins
), our_schema as (
  select n.* from pg_namespace as n where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
), our_class as (
  select c.*, c.oid::regclass::text as name
    from pg_class as c
    join our_schema as n on n.oid = c.relnamespace
   where not exists (select from pg_depend as d
                      where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
), our_function as (
  select p.*, p.oid::regprocedure::text as name
    from pg_proc as p
    join our_schema as n on n.oid = p.pronamespace
   where not exists (select from pg_depend as d
                      where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
), tenant_table as (
  select c.* from our_class as c, argument as a where c.relkind in ('r', 'p') and c.name <> all (a.tables)
), runtime_role as (
  select r.* from pg_roles as r, argument as a where r.rolname = any (a.runtime)
), definer_role as (
  select r.*, d.value as schemas
    from argument as a
   cross join jsonb_each(a.definers) as d
    join pg_roles as r on r.rolname = d.key
), table_grant as (
  select c.oid as class, x.grantee, x.privilege_type, x.is_grantable
    from our_class as c
   cross join aclexplode(c.relacl) as x
  union all
  select c.oid, x.grantee, x.privilege_type, x.is_grantable
    from our_class as c
    join pg_attribute as t on t.attrelid = c.oid
   cross join aclexplode(t.attacl) as x
), policy as (
  select p.*, c.name as table_name, c.relowner, c.relnamespace,
         pg_get_expr(p.polqual, p.polrelid) as using_text,
         pg_get_expr(p.polwithcheck, p.polrelid) as check_text
    from pg_policy as p
    join our_class as c on c.oid = p.polrelid
)`

// C1: every table belongs to a tenant unless it is on the list of exceptions.
const c1 = `
  select t.name, 'has no column tenant_id uuid not null'
    from tenant_table as t
   where not exists (select from pg_attribute as a
                      where a.attrelid = t.oid and a.attname = 'tenant_id' and a.atttypid = 'uuid'::regtype
                        and a.attnotnull and not a.attisdropped)
  union all
  select t.name, 'row level security is not enabled' from tenant_table as t where not t.relrowsecurity
  union all
  select t.name, 'row level security is not forced on its owner' from tenant_table as t where not t.relforcerowsecurity`

// C2: every granted command has its own policy, with both conditions if the command has two.
const c2 = `
  select t.name, format('%s is granted to %s without a policy for it', lower(g.privilege_type), r.rolname)
    from tenant_table as t
    join table_grant as g on g.class = t.oid
    join runtime_role as r on r.oid = g.grantee
    join (values ('SELECT', 'r', true, false), ('INSERT', 'a', false, true),
                 ('UPDATE', 'w', true, true), ('DELETE', 'd', true, false)) as c (privilege, command, needs_using, needs_check)
      on c.privilege = g.privilege_type
   where not exists (select from policy as p
                      where p.polrelid = t.oid and p.polpermissive and p.polcmd in (c.command::"char", '*')
                        and r.oid = any (p.polroles)
                        and (p.using_text is not null or not c.needs_using)
                        and (p.check_text is not null or not c.needs_check))`

// C3: every policy has the one condition; only definers see all tenants, only in their schemas; and a restrictive
// policy on every table applies to everyone else, so that no later permissive policy can widen it.
const c3 = `
  select p.table_name, format('policy %s does not have the one condition', p.polname)
    from policy as p
    join tenant_table as t on t.oid = p.polrelid
   cross join argument as a
   where (coalesce(p.using_text, a.condition) <> a.condition or coalesce(p.check_text, a.condition) <> a.condition)
     and not (p.polpermissive and coalesce(p.using_text, 'true') = 'true' and coalesce(p.check_text, 'true') = 'true')
  union all
  select p.table_name, format('policy %s lets %s see every tenant', p.polname,
                              case role when 0 then 'public' else pg_get_userbyid(role) end)
    from policy as p
   cross join unnest(p.polroles) as role
   where p.polpermissive
     and 'true' in (p.using_text, p.check_text)
     and not exists (select from definer_role as d
                      where d.oid = role
                        and d.schemas ? (select n.nspname from pg_namespace as n where n.oid = p.relnamespace))
  union all
  select p.table_name, format('policy %s is permissive to public', p.polname)
    from policy as p
   where p.polpermissive and 0 = any (p.polroles)
  union all
  select t.name, 'no restrictive policy of the tenant for all commands'
    from tenant_table as t
   cross join argument as a
   where not exists (select from policy as p
                      where p.polrelid = t.oid and not p.polpermissive and p.polcmd = '*'
                        and p.using_text = a.condition and p.check_text = a.condition)
  union all
  select t.name, format('the restrictive policy does not hold for %s', pg_get_userbyid(subject))
    from tenant_table as t
   cross join argument as a
   cross join lateral (select g.grantee from table_grant as g where g.class = t.oid and g.grantee <> 0
                       union select t.relowner) as s (subject)
   where not exists (select from policy as p
                      where p.polrelid = t.oid and not p.polpermissive and p.polcmd = '*'
                        and p.using_text = a.condition and p.check_text = a.condition
                        and (0 = any (p.polroles) or s.subject = any (p.polroles)))
     and not exists (select from definer_role as d where d.oid = s.subject)`

// C4: roles have no cluster rights, no objects and no inherited memberships.
const c4 = `
  select wanted, 'the role does not exist'
    from argument as a
   cross join unnest(a.runtime || a.owner || array(select jsonb_object_keys(a.definers))::name[]) as wanted
   where not exists (select from pg_roles as r where r.rolname = wanted)
  union all
  select r.rolname, format('has the attribute %s', attribute)
    from (select * from pg_roles as r, argument as a
           where r.rolname = any (a.runtime) or r.rolname in (a.owner, a.migrator) or a.definers ? r.rolname
              or a.second_logins ? r.rolname) as r
   cross join lateral (values (r.rolsuper, 'superuser'), (r.rolbypassrls, 'bypassrls'), (r.rolcreaterole, 'createrole'),
                              (r.rolcreatedb, 'createdb'), (r.rolreplication, 'replication'),
                              (r.rolinherit, 'inherit')) as x (has, attribute)
   where x.has
  union all
  select r.rolname, 'can log in'
    from pg_roles as r, argument as a
   where r.rolcanlogin and (r.rolname = a.owner or a.definers ? r.rolname)
  union all
  select member.rolname, format('is a member of %s', role.rolname)
    from pg_auth_members as m
    join pg_roles as member on member.oid = m.member
    join pg_roles as role on role.oid = m.roleid
   cross join argument as a
   where (member.rolname = any (a.runtime) or a.definers ? member.rolname
          or ((role.rolname = a.owner or a.definers ? role.rolname)
              and member.rolname not in (a.owner, a.migrator) and not member.rolsuper
              and not (member.rolcreaterole and not m.inherit_option))
          or ((role.rolname = any (a.runtime) or a.second_logins ? role.rolname or a.second_logins ? member.rolname)
              and not (a.second_logins ->> member.rolname is not distinct from role.rolname and not m.inherit_option
                       and not m.admin_option)
              and not member.rolsuper and not (member.rolcreaterole and not m.inherit_option)))
  union all
  select r.rolname, 'is not the role of its service from its first statement on'
    from pg_roles as r, argument as a
   where a.second_logins ? r.rolname and not ('role=' || (a.second_logins ->> r.rolname) = any (coalesce(r.rolconfig, '{}')))
  union all
  select r.rolname, format('owns %s', o.what)
    from (select oid, rolname, true as may_own_functions from definer_role
          union all select oid, rolname, false from runtime_role
          union all select l.oid, l.rolname, false from pg_roles as l, argument as a where a.second_logins ? l.rolname) as r
    join (select c.relowner as owner, c.name as what, false as is_function from our_class as c
          union all select p.proowner, p.name, true from our_function as p
          union all select n.nspowner, 'schema ' || n.nspname, false from our_schema as n
          union all select d.datdba, 'database ' || d.datname, false from pg_database as d) as o on o.owner = r.oid
   where not (r.may_own_functions and o.is_function)`

// C5: no role can bypass policies, grant rights, or create objects on a search path.
const c5 = `
  select c.name, format('%s is granted to %s', lower(g.privilege_type), pg_get_userbyid(g.grantee))
    from table_grant as g
    join our_class as c on c.oid = g.class
   where g.privilege_type in ('TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN') and g.grantee not in (c.relowner, 0)
  union all
  select c.name, format('%s is granted to public', lower(g.privilege_type))
    from table_grant as g
    join our_class as c on c.oid = g.class
   where g.grantee = 0
  union all
  select c.name, format('%s may grant %s on', pg_get_userbyid(g.grantee), lower(g.privilege_type))
    from table_grant as g
    join our_class as c on c.oid = g.class
   where g.is_grantable and g.grantee <> c.relowner
  union all
  select 'schema ' || n.nspname, format('%s is granted to %s', lower(x.privilege_type),
                                        case x.grantee when 0 then 'public' else pg_get_userbyid(x.grantee) end)
    from our_schema as n
   cross join aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) as x
   where x.grantee <> n.nspowner and (x.grantee = 0 or x.privilege_type = 'CREATE')
  union all
  select p.name, 'can be executed by public'
    from our_function as p
   cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as x
   where x.grantee = 0
  union all
  select 'database ' || d.datname, format('%s is granted to %s', lower(x.privilege_type),
                                          case x.grantee when 0 then 'public' else pg_get_userbyid(x.grantee) end)
    from pg_database as d
   cross join aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) as x
   where d.datname = current_database()
     and x.grantee <> d.datdba and (x.grantee = 0 or x.privilege_type <> 'CONNECT')
  union all
  select a.owner, 'its new functions can be executed by public'
    from argument as a
   where not exists (select from pg_default_acl as d
                      where d.defaclrole = (select r.oid from pg_roles as r where r.rolname = a.owner)
                        and d.defaclnamespace = 0 and d.defaclobjtype = 'f')
  union all
  select pg_get_userbyid(d.defaclrole), format('%s on its new objects is granted to %s', lower(x.privilege_type),
                                          case x.grantee when 0 then 'public' else pg_get_userbyid(x.grantee) end)
    from pg_default_acl as d
   cross join aclexplode(d.defaclacl) as x
   where x.grantee <> d.defaclrole`

// C6: foreign keys between tenant tables include the tenant.
const c6 = `
  select t.name, format('foreign key %s to %s does not begin with tenant_id on both sides', f.conname, u.name)
    from pg_constraint as f
    join tenant_table as t on t.oid = f.conrelid
    join tenant_table as u on u.oid = f.confrelid
   where f.contype = 'f'
     and not exists (select from pg_attribute as a, pg_attribute as b
                      where a.attrelid = t.oid and a.attnum = f.conkey[1] and a.attname = 'tenant_id'
                        and b.attrelid = u.oid and b.attnum = f.confkey[1] and b.attname = 'tenant_id')`

// C7: unique indexes include the tenant, because a rejected insert would reveal another tenant's value. A single uuid
// is allowed: it is random and cannot be guessed.
const c7 = `
  select t.name, format('index %s is unique over all tenants', i.name)
    from pg_index as x
    join tenant_table as t on t.oid = x.indrelid
    join our_class as i on i.oid = x.indexrelid
    left join pg_attribute as a on a.attrelid = t.oid and a.attnum = x.indkey[0]
   cross join argument as g
   where (x.indisunique or x.indisexclusion)
     and a.attname is distinct from 'tenant_id'
     and not (x.indnkeyatts = 1 and a.atttypid is not distinct from 'uuid'::regtype)
     and i.name <> all (g.indexes)`

// C8: views use the rights of the caller; materialized views and foreign tables have no row security.
const c8 = `
  select c.name, format('view without security_invoker is granted to %s', pg_get_userbyid(g.grantee))
    from our_class as c
    join table_grant as g on g.class = c.oid and g.grantee <> c.relowner
   where c.relkind = 'v'
     and not exists (select from pg_options_to_table(c.reloptions) as o
                      where o.option_name = 'security_invoker' and o.option_value::boolean)
  union all
  select c.name, format('%s is granted to %s', case c.relkind when 'm' then 'materialized view' else 'foreign table' end,
                        pg_get_userbyid(g.grantee))
    from our_class as c
    join table_grant as g on g.class = c.oid and g.grantee <> c.relowner
   where c.relkind in ('m', 'f')`

// C9: SECURITY DEFINER functions run as a definer role, with an empty search path, and are on the list of exceptions.
const c9 = `
  select p.name, format('security definer, and runtime role %s may call it', r.rolname)
    from our_function as p
   cross join argument as a
    join runtime_role as r on has_function_privilege(r.oid, p.oid, 'execute')
   where p.prosecdef and p.name <> all (a.functions)
  union all
  select p.name, 'security definer without: set search_path = '''''
    from our_function as p
   where p.prosecdef and not coalesce(p.proconfig @> array['search_path=""'], false)
  union all
  select p.name, format('security definer, and runs as %s, which is no definer', pg_get_userbyid(p.proowner))
    from our_function as p
   where p.prosecdef and not exists (select from definer_role as d where d.oid = p.proowner)`

// C10: leakproof functions could see rows before the policy is applied.
const c10 = `
  select p.name, 'is leakproof' from our_function as p where p.proleakproof`

// C11: no trigger runs as a definer and no rule rewrites a statement: both could reach rows of other tenants.
const c11 = `
  select t.name, format('trigger %s runs %s, which is security definer', g.tgname, p.name)
    from pg_trigger as g
    join tenant_table as t on t.oid = g.tgrelid
    join our_function as p on p.oid = g.tgfoid
   cross join argument as a
   where not g.tgisinternal and p.prosecdef and p.name <> all (a.functions)
  union all
  select c.name, format('has the rule %s', w.rulename)
    from pg_rewrite as w
    join our_class as c on c.oid = w.ev_class
   where not (w.rulename = '_RETURN' and c.relkind in ('v', 'm'))`

// C12: sequences across tenants reveal how active other tenants are.
const c12 = `
  select c.name, format('sequence is granted to %s', pg_get_userbyid(g.grantee))
    from our_class as c
    join table_grant as g on g.class = c.oid and g.grantee <> c.relowner
   where c.relkind = 'S'
  union all
  select t.name, format('column %s is numbered by a sequence', a.attname)
    from tenant_table as t
    join pg_attribute as a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef as d on d.adrelid = t.oid and d.adnum = a.attnum
   where a.attidentity <> '' or pg_get_expr(d.adbin, d.adrelid) ~ 'nextval\\('`

// C13: an index serves the policy's condition, so that a tenant's cost does not grow with other tenants' rows.
const c13 = `
  select t.name, 'no complete index begins with tenant_id'
    from tenant_table as t
   where not exists (select from pg_index as x
                       join pg_class as i on i.oid = x.indexrelid
                       join pg_am as m on m.oid = i.relam
                       join pg_attribute as a on a.attrelid = t.oid and a.attnum = x.indkey[0]
                      where x.indrelid = t.oid and a.attname = 'tenant_id' and m.amname = 'btree'
                        and x.indpred is null and x.indisvalid and x.indisready)`

/** Each rule as a query for its violations: object and problem. */
export const rules: readonly (readonly [CatalogRule, string])[] = [
  ['C1', c1],
  ['C2', c2],
  ['C3', c3],
  ['C4', c4],
  ['C5', c5],
  ['C6', c6],
  ['C7', c7],
  ['C8', c8],
  ['C9', c9],
  ['C10', c10],
  ['C11', c11],
  ['C12', c12],
  ['C13', c13],
]
