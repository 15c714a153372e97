create schema tenancy authorization postern_owner;
grant usage on schema tenancy to postern_evidence;
grant usage on schema tenancy to postern_findings;
grant usage on schema tenancy to postern_keys;
grant usage on schema tenancy to postern_keys_definer;
grant usage on schema tenancy to postern_sync;
grant usage on schema tenancy to postern_tenancy;
grant usage on schema tenancy to postern_universe;

create table tenancy.assertion_secret (
  key_id text not null,
  secret bytea not null,
  inner_pad bytea not null generated always as (tenancy.hmac_pad(secret, 54)) stored,
  outer_pad bytea not null generated always as (tenancy.hmac_pad(secret, 92)) stored,
  created_at timestamp with time zone not null default now(),
  not_after timestamp with time zone,
  constraint assertion_secret_pk PRIMARY KEY (key_id),
  constraint assertion_secret_key_id_format CHECK ((key_id ~ '^[A-Za-z0-9_-]{1,32}$'::text)),
  constraint assertion_secret_length CHECK (((octet_length(secret) >= 32) AND (octet_length(secret) <= 64)))
);
grant select (key_id) on table tenancy.assertion_secret to postern_tenancy;
grant select (inner_pad) on table tenancy.assertion_secret to postern_tenancy;
grant select (outer_pad) on table tenancy.assertion_secret to postern_tenancy;
grant select (not_after) on table tenancy.assertion_secret to postern_tenancy;

CREATE OR REPLACE PROCEDURE tenancy.admit_definer(IN protected regclass, IN definer name, IN commands text[])
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
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
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.assert_definer(definer name)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION tenancy.assert_operator()
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  assertion constant pg_catalog.text := pg_catalog.current_setting('postern.assertion', true);
  inner_pad pg_catalog.bytea;
  outer_pad pg_catalog.bytea;
begin
  select s.inner_pad, s.outer_pad
    into inner_pad, outer_pad
    from tenancy.assertion_secret as s
   where s.key_id = pg_catalog.split_part(assertion, '.', 2)
     and (s.not_after is null or s.not_after > pg_catalog.statement_timestamp());
  if tenancy.is_valid(assertion, inner_pad, outer_pad)
     and pg_catalog.split_part(assertion, '.', 3) = '00000000-0000-0000-0000-000000000000' then
    return true;
  end if;
  raise exception using errcode = '28000', message = 'tenant assertion refused';
end
$function$;
alter routine tenancy.assert_operator() owner to postern_tenancy;
grant execute on routine tenancy.assert_operator() to postern_keys;
grant execute on routine tenancy.assert_operator() to postern_keys_definer;

CREATE OR REPLACE PROCEDURE tenancy.give_function(IN routine regprocedure, IN definer name, IN callers name[])
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
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
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.hmac_pad(secret bytea, pad integer)
 RETURNS bytea
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO ''
AS $function$
declare
  block pg_catalog.bytea := secret || pg_catalog.decode(pg_catalog.repeat('00', 64 - pg_catalog.octet_length(secret)), 'hex');
begin
  for position in 0..63 loop
    block := pg_catalog.set_byte(block, position, pg_catalog.get_byte(block, position) # pad);
  end loop;
  return block;
end
$function$;

CREATE OR REPLACE FUNCTION tenancy.is_valid(assertion text, inner_pad bytea, outer_pad bytea)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN CASE WHEN ((octet_length(assertion) <= 128) AND starts_with(assertion, 'v1.'::text) AND (sha256((inner_pad || convert_to(assertion, 'UTF8'::name))) = sha256((inner_pad || convert_to((("left"(assertion, '-44'::integer) || '.'::text) || translate(encode(sha256((outer_pad || sha256((inner_pad || convert_to("left"(assertion, '-44'::integer), 'UTF8'::name))))), 'base64'::text), '+/='::text, '-_'::text)), 'UTF8'::name))))) THEN (((((split_part(assertion, '.'::text, 4))::bigint)::numeric - EXTRACT(epoch FROM statement_timestamp())) > (0)::numeric) AND ((((split_part(assertion, '.'::text, 4))::bigint)::numeric - EXTRACT(epoch FROM statement_timestamp())) <= (300)::numeric)) ELSE NULL::boolean END;
grant execute on routine tenancy.is_valid(text,bytea,bytea) to postern_tenancy;

CREATE OR REPLACE PROCEDURE tenancy.protect_table(IN protected regclass, IN runtime name, IN commands text[])
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
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
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  raise exception using
    errcode = '55000',
    message = pg_catalog.format('rows of %s.%s are never changed or deleted', tg_table_schema, tg_table_name),
    schema = tg_table_schema,
    table = tg_table_name;
end
$function$;

CREATE OR REPLACE PROCEDURE tenancy.restrict_to_tenant(IN protected regclass)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
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
$procedure$;

CREATE OR REPLACE PROCEDURE tenancy.set_access(IN protected regclass, IN grantee name, IN commands text[], IN condition text)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
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
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.tenant_id()
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  assertion constant pg_catalog.text := pg_catalog.current_setting('postern.assertion', true);
  inner_pad pg_catalog.bytea;
  outer_pad pg_catalog.bytea;
begin
  select s.inner_pad, s.outer_pad
    into inner_pad, outer_pad
    from tenancy.assertion_secret as s
   where s.key_id = pg_catalog.split_part(assertion, '.', 2)
     and (s.not_after is null or s.not_after > pg_catalog.statement_timestamp());
  -- The nil UUID is the platform's operator, who is not a tenant and owns no rows.
  if tenancy.is_valid(assertion, inner_pad, outer_pad)
     and pg_catalog.split_part(assertion, '.', 3) <> '00000000-0000-0000-0000-000000000000' then
    return pg_catalog.split_part(assertion, '.', 3)::pg_catalog.uuid;
  end if;
  raise exception using errcode = '28000', message = 'tenant assertion refused';
end
$function$;
alter routine tenancy.tenant_id() owner to postern_tenancy;
grant execute on routine tenancy.tenant_id() to postern_evidence;
grant execute on routine tenancy.tenant_id() to postern_findings;
grant execute on routine tenancy.tenant_id() to postern_keys;
grant execute on routine tenancy.tenant_id() to postern_keys_definer;
grant execute on routine tenancy.tenant_id() to postern_sync;
grant execute on routine tenancy.tenant_id() to postern_universe;
