-- INVARIANT, as before, and whoever writes: a change stays with the run that it was made for. It was asked of insertions alone.
create function sync.keep_run() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  raise exception using
    errcode = 'foreign_key_violation', schema = 'sync', table = tg_table_name, constraint = tg_table_name || '_kept',
    message = 'the row stays with the run that it was made for';
end
$$;

create trigger run_change_kept before update of tenant_id, run_id on sync.run_change
  for each statement execute function sync.keep_run();

-- Nobody but the owner can empty a table; the foreign keys that were dropped would have refused it to the owner as well.
create trigger run_never_emptied before truncate on sync.run
  for each statement execute function sync.keep_owners();
create trigger connector_never_emptied before truncate on sync.connector
  for each statement execute function sync.keep_owners();
