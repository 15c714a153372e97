-- Two more reasons of key health: scopes that a key does not need, and refusals. Indexes for two filters of the list.
-- suits the running release: it counts and lists only the reasons that it knows
-- holds up writes: the check of some hundred thousand rows, and indexes of a hundred thousand keys, take a second
-- holds up readers: the check of some hundred thousand rows takes less than a second

alter table keys.api_key_health
  drop constraint api_key_health_reason_known,
  add constraint api_key_health_reason_known check (reason in (
    'never_used', 'idle', 'expiring', 'rotation_due', 'rotated_in_use', 'wildcard', 'no_address_limit', 'owner_left',
    'outside_policy', 'unneeded_scopes', 'refused_often'));

create index api_key_expires on keys.api_key (tenant_id, expires_at, id);
create index api_key_last_used on keys.api_key (tenant_id, coalesce(last_used_at, '-infinity'::timestamptz));

-- Whether a key that needs some of its scopes does not need all of them.
create function keys.has_unneeded_scopes(of_tenant uuid, of_key uuid, granted text[]) returns boolean
language sql
stable
set search_path = ''
as $$
  select pg_catalog.cardinality(keys.list_unneeded_scopes(of_tenant, of_key, granted)) between 1 and (
    select pg_catalog.count(*) - 1
      from pg_catalog.unnest(array['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync']) as s (name)
     where granted operator(pg_catalog.&&) array[s.name, pg_catalog.split_part(s.name, ':', 1) || ':*', '*'])
$$;
grant execute on function keys.has_unneeded_scopes(uuid, uuid, text[]) to postern_keys_definer;

-- Whether at least 50 requests of the last seven days (UTC), and one of ten, were refused.
create function keys.is_refused_often(of_tenant uuid, of_key uuid) returns boolean
language sql
stable
set search_path = ''
as $$
  with refused as (
    select coalesce(pg_catalog.sum(r.refusals), 0) as refusals
      from keys.api_key_refusal_count as r
     where r.tenant_id = of_tenant
       and r.key_id = of_key
       and r.day > (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - 7)
  select refused.refusals >= 50 and refused.refusals * 9 >= (
           select coalesce(pg_catalog.sum(u.requests), 0)
             from keys.api_key_use as u
            where u.tenant_id = of_tenant
              and u.key_id = of_key
              and u.day > (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - 7)
    from refused
$$;
grant execute on function keys.is_refused_often(uuid, uuid) to postern_keys_definer;

-- Its owner is the definer, so it is replaced as a whole.
drop function keys.assess_keys(uuid, uuid[]);

create function keys.assess_keys(of_tenant uuid, ids uuid[]) returns void
language plpgsql
security definer
set search_path = ''
as $$
declare
  moment pg_catalog.timestamptz;
begin
  insert into keys.api_key_review as r (tenant_id, key_id, review_at)
  select k.tenant_id, k.id, 'infinity'
    from keys.api_key as k
   where k.tenant_id = of_tenant
     and k.id = any (ids)
   order by k.id
      on conflict (tenant_id, key_id) do nothing;
  perform
    from keys.api_key_review as r
   where r.tenant_id = of_tenant
     and r.key_id = any (ids)
   order by r.key_id
     for update;
  moment := pg_catalog.clock_timestamp();

  with facts as (
    select k.id, k.created_at, k.expires_at, k.last_used_at, k.scopes, k.allowed_addresses, k.made_for, k.owner_type,
           k.last_refused_at, greatest(k.created_at, w.counted_from) + interval '30 days' as counted_at,
           s.created_at as successor_at,
           t.rotation_days * interval '1 day' as rotation_age,
           t.max_key_days * interval '24 hours' as longest, t.required_addresses, t.forbid_wildcards, t.require_owner,
           exists (
             select
               from keys.member as m
              where m.tenant_id = k.tenant_id
                and m.id = k.owner_id
                and m.left_at is not null) as has_left
      from keys.api_key as k
      join keys.tenant as t on t.tenant_id = k.tenant_id
     cross join keys.usage_watch as w
      left join lateral (
             select n.created_at
               from keys.api_key as n
              where n.tenant_id = k.tenant_id
                and n.rotated_from = k.id
                and n.revoked_at is null
                and n.expires_at > moment
              order by n.id desc
              limit 1) as s on true
     where k.tenant_id = of_tenant
       and k.id = any (ids)
       and k.revoked_at is null
       and k.expires_at > moment),
  found as (
    select f.id, r.reason
      from facts as f
     cross join lateral (values
             ('never_used', f.last_used_at is null and f.created_at <= moment - interval '1 day'),
             ('idle', f.last_used_at <= moment - interval '90 days'),
             ('expiring', f.expires_at <= moment + interval '30 days' and f.successor_at is null),
             ('rotation_due', f.created_at <= moment - f.rotation_age and f.successor_at is null),
             ('rotated_in_use', f.last_used_at > f.successor_at),
             ('unneeded_scopes',
              case when f.counted_at <= moment and f.last_used_at > moment - interval '31 days'
                then keys.has_unneeded_scopes(of_tenant, f.id, f.scopes) else false end),
             ('refused_often',
              case when f.last_refused_at > moment - interval '8 days' then keys.is_refused_often(of_tenant, f.id) else false end),
             ('wildcard', keys.has_wildcard(f.scopes)),
             ('no_address_limit', pg_catalog.cardinality(f.allowed_addresses) = 0),
             ('owner_left', f.has_left),
             ('outside_policy',
              f.made_for > f.longest
                or f.forbid_wildcards and keys.has_wildcard(f.scopes)
                or f.require_owner and f.owner_type is null
                or not keys.narrows_addresses(f.allowed_addresses, f.required_addresses))) as r (reason, holds)
     where r.holds),
  gone as (
    delete from keys.api_key_health as h
     where h.tenant_id = of_tenant
       and h.key_id = any (ids)
       and not exists (select from found where found.id = h.key_id and found.reason = h.reason)),
  kept as (
    insert into keys.api_key_health (tenant_id, key_id, reason)
    select of_tenant, found.id, found.reason
      from found
        on conflict do nothing)
  update keys.api_key_review as r
     set review_at = coalesce((
           select pg_catalog.min(n.at)
             from facts as f
            cross join lateral (values
                    (f.expires_at), (f.expires_at - interval '30 days'), (f.created_at + interval '1 day'),
                    (f.created_at + f.rotation_age), (f.last_used_at + interval '90 days'),
                    (case when f.successor_at is not null then moment + interval '1 minute' end),
                    (f.counted_at),
                    (case when f.last_used_at > moment - interval '31 days' or f.last_refused_at > moment - interval '8 days'
                       then moment + interval '1 day' end)) as n (at)
            where f.id = r.key_id
              and n.at > moment), 'infinity')
   where r.tenant_id = of_tenant
     and r.key_id = any (ids);
end
$$;

call tenancy.give_function('keys.assess_keys(uuid, uuid[])', 'postern_keys_definer', array[]::name[]);

-- Has keys reviewed that a report uses for a new route, before `keys.count_uses` counts it. `keys.record_uses` has locked them.
create function keys.review_new_routes(uses jsonb) returns void
language plpgsql
security definer
set search_path = ''
as $$
declare
  today constant pg_catalog.date := (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date;
begin
  with fresh as (
    select distinct u."tenantId" as tenant_id, u."keyId" as key_id
      from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, routes pg_catalog.jsonb)
     cross join lateral pg_catalog.jsonb_object_keys(u.routes) as r (route)
     where case
             when exists (
                    select
                      from keys.api_key_use as n
                     where (n.tenant_id, n.key_id, n.day, n.route) = (u."tenantId", u."keyId", today, r.route)) then false
             else not exists (
                    select
                      from keys.api_key_use as n
                     where n.tenant_id = u."tenantId"
                       and n.key_id = u."keyId"
                       and n.day > today - 30
                       and n.route = r.route)
           end),
  locked as (
    select r.tenant_id, r.key_id
      from keys.api_key_review as r
      join fresh on fresh.tenant_id = r.tenant_id and fresh.key_id = r.key_id
     order by r.tenant_id, r.key_id
       for update of r)
  update keys.api_key_review as r
     set review_at = least(r.review_at, pg_catalog.clock_timestamp())
    from locked
   where r.tenant_id = locked.tenant_id
     and r.key_id = locked.key_id;
end
$$;
call tenancy.give_function('keys.review_new_routes(jsonb)', 'postern_keys_definer', array['postern_keys']);

-- Has refused keys reviewed, each at most once a minute. `keys.count_refusals` has locked them.
create function keys.review_refused(refusals jsonb) returns void
language plpgsql
security definer
set search_path = ''
as $$
begin
  with locked as (
    select r.tenant_id, r.key_id
      from keys.api_key_review as r
     where (r.tenant_id, r.key_id) in (
             select c."tenantId", c."keyId"
               from pg_catalog.jsonb_to_recordset(refusals) as c ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
       and r.review_at > pg_catalog.clock_timestamp() + interval '1 minute'
       and not exists (
             select
               from keys.api_key_health as h
              where (h.tenant_id, h.key_id, h.reason) = (r.tenant_id, r.key_id, 'refused_often'))
     order by r.tenant_id, r.key_id
       for update of r)
  update keys.api_key_review as r
     set review_at = pg_catalog.clock_timestamp() + interval '1 minute'
    from locked
   where r.tenant_id = locked.tenant_id
     and r.key_id = locked.key_id;
end
$$;
call tenancy.give_function('keys.review_refused(jsonb)', 'postern_keys_definer', array['postern_keys']);

-- Keys that exist are assessed again. The owner of a table is otherwise subject to its policies and would find no row.
alter table keys.tenant no force row level security;
alter table keys.policy_review no force row level security;
insert into keys.policy_review (tenant_id)
select t.tenant_id from keys.tenant as t
    on conflict (tenant_id) do nothing;
alter table keys.policy_review force row level security;
alter table keys.tenant force row level security;
