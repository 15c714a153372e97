-- Which scopes a key needs: those that open a route which it used in the last 30 days.
-- suits the running release: it neither reads nor writes the new tables

create table keys.route (
  id text not null,
  scopes text[] not null,
  constraint route_pk primary key (id),
  constraint route_id_length check (char_length(id) between 1 and 64)
);
comment on table keys.route is 'Every route that a release has had, and the scopes of which each one opens it.';
grant select on keys.route to postern_keys;
grant select, insert, update on keys.route to postern_keys_definer;

create table keys.usage_watch (
  single boolean not null default true,
  counted_from timestamptz not null default '-infinity',
  seen_at timestamptz not null default clock_timestamp(),
  constraint usage_watch_pk primary key (single),
  constraint usage_watch_one_row check (single)
);
comment on column keys.usage_watch.counted_from is 'Uses before this time may be missing, because a backup was restored.';
comment on column keys.usage_watch.seen_at is 'When housekeeping last ran. A gap of more than an hour sets counted_from.';
insert into keys.usage_watch (single) values (true);
grant select on keys.usage_watch to postern_keys;
grant select, update on keys.usage_watch to postern_keys_definer;

create function keys.set_routes(routes jsonb) returns void
language sql
security definer
set search_path = ''
as $$
  insert into keys.route as r (id, scopes)
  select n.id, n.scopes
    from pg_catalog.jsonb_to_recordset(routes) as n (id pg_catalog.text, scopes pg_catalog.text[])
   order by n.id
      on conflict (id) do update set scopes = excluded.scopes
   where r.scopes <> excluded.scopes
$$;
call tenancy.give_function('keys.set_routes(jsonb)', 'postern_keys_definer', array['postern_keys']);

create function keys.watch_usage() returns void
language sql
security definer
set search_path = ''
as $$
  update keys.usage_watch as w
     set counted_from = case
           when w.seen_at < pg_catalog.clock_timestamp() - interval '1 hour' then pg_catalog.clock_timestamp()
           else w.counted_from end,
         seen_at = greatest(w.seen_at, pg_catalog.clock_timestamp())
$$;
call tenancy.give_function('keys.watch_usage()', 'postern_keys_definer', array['postern_keys']);

-- The named scopes of a key that opened no route it used in the last 30 days (UTC). None if it used a route that is unknown.
create function keys.list_unneeded_scopes(of_tenant uuid, of_key uuid, granted text[]) returns text[]
language sql
stable
set search_path = ''
as $$
  with used as (
    select u.route, r.scopes
      from (select distinct n.route
              from keys.api_key_use as n
             where n.tenant_id = of_tenant
               and n.key_id = of_key
               and n.day > (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - 30) as u
      left join keys.route as r on r.id = u.route)
  select case
    when exists (select from used where used.scopes is null) then '{}'
    else array(
      select s.name
        from pg_catalog.unnest(array['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync']) as s (name)
       where granted operator(pg_catalog.&&) array[s.name, pg_catalog.split_part(s.name, ':', 1) || ':*', '*']
         and not exists (select from used where s.name = any (used.scopes))
       order by s.name)
    end
$$;
grant execute on function keys.list_unneeded_scopes(uuid, uuid, text[]) to postern_keys, postern_keys_definer;
