-- Connectors can take access away like SCIM, and names match in all spellings.
-- suits the running release: rows of SCIM get the default source, and names of ASCII keep their hash
-- holds up readers: the check of the new column passes over names of people, which takes less than a second

alter table tenancy.directory_name
  add column source text not null default 'scim',
  add constraint directory_name_source_known check (source in ('scim', 'people'));
comment on column tenancy.directory_name.source is 'scim: an identity provider. people: connectors that are authoritative.';
call tenancy.protect_table('tenancy.directory_name', 'postern_universe', array['select', 'insert', 'update']);

-- Composed and decomposed letters are one name. The case of letters does not depend on the locale of the database.
create or replace function tenancy.hash_name(tenant uuid, attribute text, name text) returns bytea
language sql
immutable
set search_path = ''
as $$
  select pg_catalog.sha256(pg_catalog.convert_to(
    'person ' || tenant::pg_catalog.text || ' ' || attribute || ' ' ||
    case when attribute = 'externalId' then n.name else pg_catalog.lower(n.name collate pg_catalog.pg_c_utf8) end, 'UTF8'))
    from (select pg_catalog.normalize($3, 'NFC') as name) as n
$$;
grant execute on function tenancy.hash_name(uuid, text, text) to postern_universe;

-- active: each source that has the name now has it for somebody active. inactive: a source has it for inactive people only, or
-- only inactive people had it. unknown: otherwise.
drop function tenancy.find_person_status(uuid, bytea);
create function tenancy.find_person_status(tenant uuid, name_hash bytea) returns text
language sql
stable
security definer
set search_path = ''
as $$
  select case
           when pg_catalog.bool_or(s.is_current and not s.has_active) then 'inactive'
           when pg_catalog.bool_or(s.is_current) then 'active'
           when pg_catalog.bool_and(not s.has_active) then 'inactive'
           else 'unknown'
         end
    from (select n.is_current, pg_catalog.bool_or(n.is_active) as has_active
            from tenancy.directory_name as n
           where n.tenant_id = tenant
             and n.hash = name_hash
           group by n.source, n.is_current) as s
$$;
call tenancy.give_function('tenancy.find_person_status(uuid, bytea)', 'postern_tenancy', array['postern_keys_definer']);

-- Whether a source has the name for somebody active, although another one may not.
create function tenancy.has_active_person(tenant uuid, name_hash bytea) returns boolean
language sql
stable
security definer
set search_path = ''
as $$
  select exists (
    select
      from tenancy.directory_name as n
     where n.tenant_id = tenant
       and n.hash = name_hash
       and n.is_active
       and n.is_current)
$$;
call tenancy.give_function('tenancy.has_active_person(uuid, bytea)', 'postern_tenancy', array['postern_keys_definer']);
