-- Names of people in a tenant's directory, and whether they are active. The service that serves the directory writes them in
-- the transaction that changes a person, and triggers of the keys service tell the gateways.

-- Names are stored as hashes, so that no name is too long for the index. Only externalId is case-sensitive (RFC 7643).
create function tenancy.hash_name(tenant uuid, attribute text, name text) returns bytea
language sql
immutable
set search_path = ''
as $$
  select pg_catalog.sha256(pg_catalog.convert_to(
    'person ' || tenant::pg_catalog.text || ' ' || attribute || ' ' ||
    case when attribute = 'externalId' then name else pg_catalog.lower(name) end, 'UTF8'))
$$;
grant execute on function tenancy.hash_name(uuid, text, text) to postern_sync, postern_keys_definer;

create table tenancy.directory_name (
  tenant_id uuid not null,
  hash bytea not null,
  person_id uuid not null,
  is_active boolean not null,
  is_current boolean not null,
  constraint directory_name_pk primary key (tenant_id, hash, person_id),
  constraint directory_name_hash_length check (octet_length(hash) = 32)
);
comment on table tenancy.directory_name is 'Rows are never deleted: a token may hold a name that its person had before.';
comment on column tenancy.directory_name.is_current is 'Whether the person still has the name. A former name counts if nobody has it.';
create index directory_name_of_person on tenancy.directory_name (tenant_id, person_id);

call tenancy.protect_table('tenancy.directory_name', 'postern_sync', array['select', 'insert', 'update']);
call tenancy.admit_definer('tenancy.directory_name', 'postern_tenancy', array['select']);

-- active: somebody active has the name. inactive: only inactive people have it, or had it. unknown: otherwise.
create function tenancy.find_person_status(tenant uuid, name_hash bytea) returns text
language sql
stable
security definer
set search_path = ''
as $$
  select coalesce((
    select case
             when n.is_current and pg_catalog.bool_or(n.is_active) then 'active'
             when not pg_catalog.bool_or(n.is_active) then 'inactive'
           end
      from tenancy.directory_name as n
     where n.tenant_id = tenant
       and n.hash = name_hash
     group by n.is_current
     order by n.is_current desc
     limit 1), 'unknown')
$$;
call tenancy.give_function('tenancy.find_person_status(uuid, bytea)', 'postern_tenancy', array['postern_keys_definer']);
