-- Uses that a gateway could not report for long may be missing, so idle days count again.
-- suits the running release: its gateways never say so

create function keys.note_late_usage() returns void
language sql
security definer
set search_path = ''
as $$
  update keys.usage_watch as w
     set counted_from = pg_catalog.clock_timestamp()
   where w.counted_from < pg_catalog.clock_timestamp() - interval '10 minutes'
$$;
call tenancy.give_function('keys.note_late_usage()', 'postern_keys_definer', array['postern_keys']);
