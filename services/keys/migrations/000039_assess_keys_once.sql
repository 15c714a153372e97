-- Assessing many keys takes time in proportion to their number.
-- suits the running release: the health of a key is decided as before

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

  -- Every key has one row of `facts`, so that no step compares all keys with all others.
  with facts as materialized (
    select k.id, k.revoked_at is null and k.expires_at > moment as is_active,
           k.created_at, k.expires_at, k.last_used_at, k.scopes, k.allowed_addresses, k.made_for, k.owner_type,
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
       and k.id = any (ids)),
  assessed as materialized (
    select f.id, coalesce(found.reasons, '{}') as reasons, coalesce(next.at, 'infinity') as review_at
      from facts as f
      left join lateral (
             select pg_catalog.array_agg(r.reason) as reasons
               from (values
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
              where f.is_active and r.holds) as found on true
      left join lateral (
             select pg_catalog.min(n.at) as at
               from (values
                      (f.expires_at), (f.expires_at - interval '30 days'), (f.created_at + interval '1 day'),
                      (f.created_at + f.rotation_age), (f.last_used_at + interval '90 days'),
                      (case when f.successor_at is not null then moment + interval '1 minute' end),
                      (f.counted_at),
                      (case when f.last_used_at > moment - interval '31 days' or f.last_refused_at > moment - interval '8 days'
                         then moment + interval '1 day' end)) as n (at)
              where f.is_active and n.at > moment) as next on true),
  gone as (
    delete from keys.api_key_health as h
     using assessed as a
     where h.tenant_id = of_tenant
       and h.key_id = a.id
       and h.reason <> all (a.reasons)),
  kept as (
    insert into keys.api_key_health (tenant_id, key_id, reason)
    select of_tenant, a.id, found.reason
      from assessed as a
     cross join lateral pg_catalog.unnest(a.reasons) as found (reason)
        on conflict do nothing)
  update keys.api_key_review as r
     set review_at = a.review_at
    from assessed as a
   where r.tenant_id = of_tenant
     and r.key_id = a.id;
end
$$;
call tenancy.give_function('keys.assess_keys(uuid, uuid[])', 'postern_keys_definer', array[]::name[]);
