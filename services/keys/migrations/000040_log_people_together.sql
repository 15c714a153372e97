-- A transaction that ends the access of many people locks the counter of the log once, so that revocations do not wait long.
-- suits the running release: the log has the same entries

-- Notes the names whose state gateways may have cached, for the end of the transaction.
create function keys.note_people() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  noted text;
begin
  if tg_op = 'INSERT' then
    select pg_catalog.string_agg(pg_catalog.concat_ws(' ', n.tenant_id, pg_catalog.encode(n.hash, 'hex'), 0), ',')
      into noted
      from new_rows as n
     where not (n.is_active and n.is_current);
  else
    select pg_catalog.string_agg(pg_catalog.concat_ws(' ', n.tenant_id, pg_catalog.encode(n.hash, 'hex'),
             (o.is_active and o.is_current)::pg_catalog.int4), ',')
      into noted
      from new_rows as n
      join old_rows as o on o.tenant_id = n.tenant_id and o.hash = n.hash and o.person_id = n.person_id
     where not (n.is_active and n.is_current);
  end if;
  if noted is not null then
    perform pg_catalog.set_config('keys.changed_people', pg_catalog.concat_ws(',',
      nullif(pg_catalog.current_setting('keys.changed_people', true), ''), noted), true);
  end if;
  return null;
end
$$;
create trigger directory_name_notes_new after insert on tenancy.directory_name
  referencing new table as new_rows
  for each statement execute function keys.note_people();
create trigger directory_name_notes_changed after update on tenancy.directory_name
  referencing old table as old_rows new table as new_rows
  for each statement execute function keys.note_people();
call tenancy.give_function('keys.note_people()', 'postern_keys_definer', array[]::name[]);

-- Voids what gateways have cached of these people. The first row logs all: each update of the counter would read all before it.
drop trigger directory_name_change_is_logged on tenancy.directory_name;
drop function keys.log_person();
create function keys.log_people() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  noted text := pg_catalog.current_setting('keys.changed_people', true);
  tenants pg_catalog.uuid[];
  hashes pg_catalog.bytea[];
  marks pg_catalog.text[];
  next bigint;
  before text;
begin
  if coalesce(noted, '') = '' then
    return null;
  end if;
  perform pg_catalog.set_config('keys.changed_people', '', true);
  select pg_catalog.array_agg(p.tenant_id), pg_catalog.array_agg(p.hash)
    into tenants, hashes
    from (select pg_catalog.split_part(line, ' ', 1)::pg_catalog.uuid as tenant_id,
                 pg_catalog.decode(pg_catalog.split_part(line, ' ', 2), 'hex') as hash,
                 pg_catalog.bool_or(pg_catalog.split_part(line, ' ', 3) = '1') as was_active
            from pg_catalog.string_to_table(noted, ',') as line
           group by 1, 2) as p
   where p.was_active
      or tenancy.has_active_person(p.tenant_id, p.hash);
  if hashes is null then
    return null;
  end if;
  if pg_catalog.current_setting('synchronous_commit') = 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'local', true);
  end if;
  select c.seq, c.mark into strict next, before from keys.revocation_seq as c where c.single for update;
  marks := pg_catalog.array_fill(before, array[pg_catalog.cardinality(hashes)]);
  for place in 1 .. pg_catalog.cardinality(hashes) loop
    marks[place] := before;
    before := pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat_ws(' ',
      before, next + place, 'key', pg_catalog.encode(hashes[place], 'hex'), next + place, 0), 'UTF8')), 'hex');
  end loop;
  insert into keys.revocation (seq, kind, tenant_id, hash, version, revoked, mark_before)
  select next + p.place, 'key', p.tenant_id, p.hash, next + p.place, false, p.mark
    from unnest(tenants, hashes, marks) with ordinality as p (tenant_id, hash, mark, place);
  next := next + pg_catalog.cardinality(hashes);
  update keys.revocation_seq as c set seq = next, mark = before where c.single;
  return null;
end
$$;
create constraint trigger directory_name_change_is_logged after insert or update on tenancy.directory_name
  deferrable initially deferred
  for each row when (not (new.is_active and new.is_current))
  execute function keys.log_people();
call tenancy.give_function('keys.log_people()', 'postern_keys_definer', array[]::name[]);
