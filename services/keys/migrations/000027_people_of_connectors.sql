-- Several sources can name one person: the log says so when another source ends the access.
-- suits the running release: it only reads names of people

-- As before, also where a source says that a person is inactive whom another source has as active.
drop trigger directory_name_change_is_logged on tenancy.directory_name;
drop function keys.log_person();
create function keys.log_person() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  next bigint;
  before text;
begin
  if (tg_op = 'INSERT' or not (old.is_active and old.is_current))
    and not tenancy.has_active_person(new.tenant_id, new.hash)
  then
    return null;
  end if;
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
create constraint trigger directory_name_change_is_logged after insert or update on tenancy.directory_name
  deferrable initially deferred
  for each row when (not (new.is_active and new.is_current))
  execute function keys.log_person();
call tenancy.give_function('keys.log_person()', 'postern_keys_definer', array[]::name[]);

-- Most people of a connector are no members.
drop trigger directory_name_marks_leavers on tenancy.directory_name;
drop function keys.mark_leavers();
create function keys.mark_leavers() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  -- member_of_directory
  perform from keys.member as m where m.tenant_id = new.tenant_id and m.directory_hash = new.hash;
  if not found then
    return null;
  end if;
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
call tenancy.give_function('keys.mark_leavers()', 'postern_keys_definer', array[]::name[]);
