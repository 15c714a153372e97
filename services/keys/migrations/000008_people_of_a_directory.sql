-- A person whom the directory deactivates loses access by the log that gateways follow, and is marked as having left.
-- suits the running release: it neither writes names of a directory nor reports the names of people
-- holds up writes: the members of a tenant are people, and an index over a hundred thousand takes a second
-- holds up readers: the members of a tenant are people, and an index over a hundred thousand takes a second

alter table keys.member
  add column directory_hash bytea,
  add constraint member_directory_hash_length check (octet_length(directory_hash) = 32);
comment on column keys.member.directory_hash is 'Which name of the directory the token of the person held (tenancy.hash_name).';
create index member_of_directory on keys.member (tenant_id, directory_hash) where directory_hash is not null;

-- What a gateway caches of a person. The version is that of the log: an entry voids what was read before it. All values come from
-- one snapshot.
create function keys.find_person(of_tenant uuid, attribute text, name text)
returns table (hash bytea, version bigint, status text, read_at_ms bigint)
language sql
stable
security definer
set search_path = ''
as $$
  select h.hash, c.seq, tenancy.find_person_status(of_tenant, h.hash),
         pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp()) * 1000)::pg_catalog.int8
    from keys.revocation_seq as c
   cross join (select tenancy.hash_name(of_tenant, attribute, name) as hash) as h
   where c.single
$$;
call tenancy.give_function('keys.find_person(uuid, text, text)', 'postern_keys_definer', array['postern_keys']);

-- Voids what gateways have cached of an active person. As log_change: deferred, so that the counter is locked last.
create function keys.log_person() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  next bigint;
  before text;
begin
  if pg_catalog.current_setting('synchronous_commit') = 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'local', true);
  end if;
  select c.seq + 1, c.mark into strict next, before from keys.revocation_seq as c where c.single for update;
  insert into keys.revocation (seq, kind, tenant_id, hash, version, revoked, mark_before)
  values (next, 'key', new.tenant_id, new.hash, next, false, before);
  update keys.revocation_seq as c
     set seq = next,
         mark = pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
           pg_catalog.concat_ws(' ', before, next, 'key', pg_catalog.encode(new.hash, 'hex'), next, 0), 'UTF8')), 'hex')
   where c.single;
  return null;
end
$$;

create constraint trigger directory_name_change_is_logged after update on tenancy.directory_name
  deferrable initially deferred
  for each row when (old.is_active and old.is_current and not (new.is_active and new.is_current))
  execute function keys.log_person();

-- Marks the members whose tokens held the name.
create function keys.mark_leavers() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  update keys.member as m
     set left_at = case when s.status = 'inactive'
                        then coalesce(m.left_at, pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) end
    from (select tenancy.find_person_status(new.tenant_id, new.hash) as status) as s
   where m.tenant_id = new.tenant_id
     and m.directory_hash = new.hash
     and (s.status = 'inactive') is distinct from (m.left_at is not null);
  return null;
end
$$;

create trigger directory_name_marks_leavers after insert or update on tenancy.directory_name
  for each row execute function keys.mark_leavers();

call tenancy.give_function('keys.log_person()', 'postern_keys_definer', array[]::name[]);
call tenancy.give_function('keys.mark_leavers()', 'postern_keys_definer', array[]::name[]);

-- Its owner is the definer, so it is replaced as a whole.
drop function keys.record_people(jsonb);
create function keys.record_people(people jsonb) returns void
language sql
security definer
set search_path = ''
as $$
  insert into keys.member as m (tenant_id, id, name, roles, first_seen_at, last_seen_at, directory_hash, left_at)
  select distinct on (t.tenant_id, p.id)
         t.tenant_id, p.id, p.name, p.roles, seen.at, seen.at, named.hash,
         case when tenancy.find_person_status(t.tenant_id, named.hash) = 'inactive' then seen.at end
    from pg_catalog.jsonb_to_recordset(people)
         as p ("tenantId" pg_catalog.uuid, id pg_catalog.text, name pg_catalog.text, roles pg_catalog.text[],
               "lastSeenAt" pg_catalog.int8, directory pg_catalog.text)
    join keys.tenant as t on t.tenant_id = p."tenantId"
   cross join lateral (
           select least(pg_catalog.to_timestamp(p."lastSeenAt" / 1000.0),
                        pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at) as seen
   cross join lateral (select pg_catalog.decode(p.directory, 'hex') as hash) as named
  -- In one order, so that two reports about the same people do not lock each other out.
   order by t.tenant_id, p.id, seen.at desc
      on conflict (tenant_id, id) do update
     set name = excluded.name, roles = excluded.roles, last_seen_at = excluded.last_seen_at,
         directory_hash = excluded.directory_hash,
         left_at = case when excluded.left_at is not null then coalesce(m.left_at, excluded.left_at) end
   where m.last_seen_at < excluded.last_seen_at
$$;
call tenancy.give_function('keys.record_people(jsonb)', 'postern_keys_definer', array['postern_keys']);
