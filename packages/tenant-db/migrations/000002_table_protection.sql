-- The one way in which tables get their policies and grants, so that they are the same everywhere.
-- These run with the rights of who calls them, and only the owner may call them.

-- Hands a SECURITY DEFINER function to the role that it shall run as, opened to the named callers. The definer may
-- create in the schema for the length of this call only. To change the function later: drop, create, give it again.
create procedure tenancy.give_function(routine pg_catalog.regprocedure, definer pg_catalog.name, callers pg_catalog.name[])
language plpgsql
set search_path = ''
as $$
declare
  schema_name pg_catalog.name;
  caller pg_catalog.name;
begin
  select n.nspname
    into schema_name
    from pg_catalog.pg_proc as p
    join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
   where p.oid = routine
     and p.prosecdef
     and p.proconfig @> array['search_path=""'];
  if not found then
    raise exception '% must be "security definer" and "set search_path = ''''"', routine;
  end if;
  perform tenancy.assert_definer(definer);

  execute pg_catalog.format('revoke execute on routine %s from public', routine);
  foreach caller in array callers loop
    execute pg_catalog.format('grant execute on routine %s to %I', routine, caller);
  end loop;
  execute pg_catalog.format('grant usage, create on schema %I to %I', schema_name, definer);
  execute pg_catalog.format('alter routine %s owner to %I', routine, definer);
  execute pg_catalog.format('revoke create on schema %I from %I', schema_name, definer);
end
$$;

-- Definers are roles that nobody can log in as.
create function tenancy.assert_definer(definer pg_catalog.name) returns void
language plpgsql
stable
set search_path = ''
as $$
begin
  perform
    from pg_catalog.pg_roles as r
   where r.rolname = definer
     and not r.rolcanlogin
     and not r.rolsuper
     and not r.rolbypassrls;
  if not found then
    raise exception '% is not a role that can be a definer: nologin, nosuperuser, nobypassrls', definer;
  end if;
end
$$;

-- Puts a table under its tenant: row security enabled and forced, one restrictive policy that no later policy can widen,
-- and for the role one permissive policy and one grant for each of the commands (select, insert, update, delete).
-- Called once for each role that may use the table; again for the same role it replaces what the role may do.
create procedure tenancy.protect_table(protected pg_catalog.regclass, runtime pg_catalog.name, commands pg_catalog.text[])
language plpgsql
set search_path = ''
as $$
declare
  condition constant pg_catalog.text := 'tenant_id = (select tenancy.tenant_id())';
begin
  perform
    from pg_catalog.pg_attribute as a
   where a.attrelid = protected
     and a.attname = 'tenant_id'
     and a.atttypid = 'pg_catalog.uuid'::pg_catalog.regtype
     and a.attnotnull;
  if not found then
    raise exception '% has no column "tenant_id uuid not null"', protected;
  end if;
  call tenancy.set_access(protected, runtime, commands, condition);
  call tenancy.restrict_to_tenant(protected);
end
$$;

-- Lets the functions of a definer see and change the rows of all tenants in one table. The definer is then the only
-- role that the restrictive policy leaves out. A table without tenant_id is then open to the definer alone.
create procedure tenancy.admit_definer(protected pg_catalog.regclass, definer pg_catalog.name, commands pg_catalog.text[])
language plpgsql
set search_path = ''
as $$
begin
  perform tenancy.assert_definer(definer);
  call tenancy.set_access(protected, definer, commands, 'true');
  perform
    from pg_catalog.pg_attribute as a
   where a.attrelid = protected
     and a.attname = 'tenant_id'
     and not a.attisdropped;
  if found then
    call tenancy.restrict_to_tenant(protected);
  end if;
end
$$;

create procedure tenancy.set_access(
  protected pg_catalog.regclass, grantee pg_catalog.name, commands pg_catalog.text[], condition pg_catalog.text)
language plpgsql
set search_path = ''
as $$
declare
  command pg_catalog.text;
  policy pg_catalog.name;
begin
  execute pg_catalog.format('alter table %s enable row level security, force row level security', protected);
  execute pg_catalog.format('grant usage on schema %I to %I', (
    select n.nspname
      from pg_catalog.pg_class as c
      join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
     where c.oid = protected), grantee);
  execute pg_catalog.format('revoke all on table %s from %I', protected, grantee);
  foreach command in array array['select', 'insert', 'update', 'delete'] loop
    execute pg_catalog.format('drop policy if exists %I on %s', grantee || '_' || command, protected);
  end loop;

  foreach command in array commands loop
    policy := grantee || '_' || command;
    execute case command
      when 'select' then pg_catalog.format('create policy %I on %s for select to %I using (%s)',
        policy, protected, grantee, condition)
      when 'insert' then pg_catalog.format('create policy %I on %s for insert to %I with check (%s)',
        policy, protected, grantee, condition)
      when 'update' then pg_catalog.format('create policy %I on %s for update to %I using (%s) with check (%4$s)',
        policy, protected, grantee, condition)
      when 'delete' then pg_catalog.format('create policy %I on %s for delete to %I using (%s)',
        policy, protected, grantee, condition)
    end;
    execute pg_catalog.format('grant %s on table %s to %I', command, protected, grantee);
  end loop;
end
$$;

-- The restrictive policy holds for everyone. On a table that a definer is admitted to, it names everyone else: the owner
-- and every role with a policy of its own; a role without one sees nothing anyway.
create procedure tenancy.restrict_to_tenant(protected pg_catalog.regclass)
language plpgsql
set search_path = ''
as $$
declare
  subjects pg_catalog.text;
begin
  select case when pg_catalog.bool_or(pg_catalog.pg_get_expr(coalesce(p.polqual, p.polwithcheck), p.polrelid) = 'true')
              then pg_catalog.string_agg(distinct pg_catalog.quote_ident(r.rolname), ', ')
                     filter (where pg_catalog.pg_get_expr(coalesce(p.polqual, p.polwithcheck), p.polrelid) <> 'true')
              else 'public'
         end
    into subjects
    from pg_catalog.pg_policy as p
    join pg_catalog.pg_roles as r on r.oid = any (p.polroles)
   where p.polrelid = protected
     and p.polpermissive;
  if subjects <> 'public' or subjects is null then
    subjects := pg_catalog.concat_ws(', ', (
      select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(c.relowner))
        from pg_catalog.pg_class as c
       where c.oid = protected), subjects);
  end if;
  execute pg_catalog.format('drop policy if exists tenant_only on %s', protected);
  execute pg_catalog.format(
    'create policy tenant_only on %s as restrictive for all to %s using (%s) with check (%3$s)',
    protected, subjects, 'tenant_id = (select tenancy.tenant_id())');
end
$$;

-- For tables that only grow: create trigger … before update or delete … for each row execute function
-- tenancy.refuse_change(); and the same before truncate, for each statement.
create function tenancy.refuse_change() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  raise exception using
    errcode = '55000',
    message = pg_catalog.format('rows of %s.%s are never changed or deleted', tg_table_schema, tg_table_name),
    schema = tg_table_schema,
    table = tg_table_name;
end
$$;

grant execute on function tenancy.is_valid(text, bytea, bytea) to postern_tenancy;
call tenancy.give_function('tenancy.tenant_id()', 'postern_tenancy', array[
  'postern_keys_definer',
  'postern_keys', 'postern_findings', 'postern_universe', 'postern_evidence', 'postern_sync']);
call tenancy.give_function('tenancy.assert_operator()', 'postern_tenancy', array[
  'postern_keys_definer', 'postern_keys']);
