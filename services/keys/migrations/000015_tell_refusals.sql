-- The last accepted request of a key and the last refused one are told apart.
-- suits the running release: it writes through the same function, and does not know the new column.

alter table keys.api_key add column last_refused_at timestamptz;
comment on column keys.api_key.last_refused_at is 'When a request with the key was last refused, for whatever reason.';
comment on column keys.api_key.version is 'Grows with every change but that of last_used_at and last_refused_at; counted by the guard trigger, never by the writer.';
grant update (last_refused_at) on keys.api_key to postern_keys_definer;

create or replace function keys.guard_api_key()
 returns trigger
 language plpgsql
 set search_path = ''
as $function$
declare
  moment constant timestamptz := pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp());
  max_days integer;
begin
  if tg_op = 'INSERT' then
    if new.revoked_at is not null or new.last_used_at is not null or new.last_refused_at is not null or new.version <> 1 then
      raise exception using errcode = '23514', constraint = 'api_key_begins_active', message = 'a key begins active and unused';
    end if;
    if new.created_at > moment then
      raise exception using errcode = '23514', constraint = 'api_key_created_now', message = 'a key is not made in the future';
    end if;
    select t.max_key_days into max_days from keys.tenant as t where t.tenant_id = new.tenant_id;
    if found and new.expires_at > new.created_at + pg_catalog.make_interval(hours => 24 * max_days) then
      raise exception using errcode = '23514', constraint = 'api_key_within_maximum', message = 'the key would live too long';
    end if;
    new.made_for := new.expires_at - new.created_at;
    select coalesce(k.limit_id, k.rotated_from, k.id) into new.limit_id
      from keys.api_key as k
     where k.tenant_id = new.tenant_id
       and k.id = new.rotated_from;
    return new;
  end if;

  if (new.tenant_id, new.id, new.hash, new.last_four, new.created_by_type, new.created_by_id, new.created_by_label,
      new.created_at, new.made_for, new.rotated_from, new.limit_id)
     is distinct from
     (old.tenant_id, old.id, old.hash, old.last_four, old.created_by_type, old.created_by_id, old.created_by_label,
      old.created_at, old.made_for, old.rotated_from, old.limit_id) then
    raise exception using errcode = '23514', constraint = 'api_key_origin_is_fixed', message = 'what a key was made as never changes';
  end if;
  if new.last_used_at is null and old.last_used_at is not null or new.last_used_at < old.last_used_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_use_grows', message = 'the last use of a key never goes back';
  end if;
  if new.last_refused_at is null and old.last_refused_at is not null or new.last_refused_at < old.last_refused_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_refusal_grows', message = 'the last refusal of a key never goes back';
  end if;

  new.version := old.version;
  if (new.label, new.scopes, new.allowed_addresses, new.expires_at,
      new.revoked_at, new.revoked_by_type, new.revoked_by_id, new.revoked_by_label, new.revoke_reason)
     is not distinct from
     (old.label, old.scopes, old.allowed_addresses, old.expires_at,
      old.revoked_at, old.revoked_by_type, old.revoked_by_id, old.revoked_by_label, old.revoke_reason) then
    return new;
  end if;

  if old.revoked_at is not null then
    raise exception using errcode = '23514', constraint = 'api_key_revoked_is_final', message = 'a revoked key never changes';
  end if;
  if new.expires_at > old.expires_at
     or not keys.narrows_addresses(new.allowed_addresses, old.allowed_addresses)
     or exists (
          select
            from pg_catalog.unnest(new.scopes) as s (scope)
           where keys.covers_scope(old.scopes, s.scope) is not true) then
    raise exception using errcode = '23514', constraint = 'api_key_only_narrows', message = 'a key never gets wider';
  end if;
  if new.revoked_at is not null then
    -- The database's clock, whatever the writer thinks.
    new.revoked_at := moment;
  end if;
  new.version := old.version + 1;
  return new;
end
$function$;

-- Notes when keys were last refused. Update only, and never back.
create function keys.record_refusals(refusals jsonb) returns void
language plpgsql
security definer
set search_path = ''
as $$
begin
  -- In one order, so that two reports about the same keys do not lock each other out.
  perform
    from keys.api_key as k
   where (k.tenant_id, k.id) in (
           select r."tenantId", r."keyId" from pg_catalog.jsonb_to_recordset(refusals) as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
   order by k.tenant_id, k.id
     for no key update;

  update keys.api_key as k
     set last_refused_at = seen.at
    from (select r."tenantId" as tenant_id, r."keyId" as key_id,
                 least(pg_catalog.max(pg_catalog.to_timestamp(r.at / 1000.0)),
                       pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at
            from pg_catalog.jsonb_to_recordset(refusals) as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, at pg_catalog.int8)
           group by r."tenantId", r."keyId") as seen
   where k.tenant_id = seen.tenant_id
     and k.id = seen.key_id
     and (k.last_refused_at is null or k.last_refused_at < seen.at);
end
$$;
call tenancy.give_function('keys.record_refusals(jsonb)'::regprocedure, 'postern_keys_definer', array['postern_keys']);

-- Its owner replaces it.
grant create on schema keys to postern_keys_definer;
set local role postern_keys_definer;
create or replace function keys.record_uses(uses jsonb)
 returns void
language plpgsql
security definer
set search_path = ''
as $function$
begin
  -- In one order, so that two reports about the same keys do not lock each other out.
  perform
    from keys.api_key as k
   where (k.tenant_id, k.id) in (
           select u."tenantId", u."keyId" from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
   order by k.tenant_id, k.id
     for no key update;

  update keys.api_key as k
     set last_used_at = seen.at
    from (select u."tenantId" as tenant_id, u."keyId" as key_id,
                 least(pg_catalog.max(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0)),
                       pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at
            from pg_catalog.jsonb_to_recordset(uses)
                 as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, "lastUsedAt" pg_catalog.int8, routes pg_catalog.jsonb)
           -- Without a route, every request of the line was refused for what it asked. Gateways of older releases name no routes at all.
           where u.routes is distinct from '{}'::pg_catalog.jsonb
           group by u."tenantId", u."keyId") as seen
   where k.tenant_id = seen.tenant_id
     and k.id = seen.key_id
     and (k.last_used_at is null or k.last_used_at < seen.at);

  with seen as (
    select k.tenant_id, k.id as key_id, u.address,
           least(pg_catalog.max(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0)), pg_catalog.clock_timestamp()) as at
      from pg_catalog.jsonb_to_recordset(uses)
           as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, address pg_catalog.text, "lastUsedAt" pg_catalog.int8)
      join keys.api_key as k on k.tenant_id = u."tenantId" and k.id = u."keyId"
     group by k.tenant_id, k.id, u.address),
  known as (
    update keys.api_key_address as a
       set last_used_at = greatest(a.last_used_at, seen.at)
      from seen
     where a.tenant_id = seen.tenant_id and a.key_id = seen.key_id and a.address = seen.address
    returning a.tenant_id, a.key_id, a.address),
  before as (
    select s.tenant_id, s.key_id,
           (select pg_catalog.count(*) from keys.api_key_address as a where a.tenant_id = s.tenant_id and a.key_id = s.key_id) as held
      from (select distinct seen.tenant_id, seen.key_id from seen) as s),
  fresh as (
    select seen.tenant_id, seen.key_id, seen.address, seen.at, before.held,
           pg_catalog.row_number() over (partition by seen.tenant_id, seen.key_id order by seen.at desc, seen.address) as place
      from seen
      join before on before.tenant_id = seen.tenant_id and before.key_id = seen.key_id
     where not exists (
             select from known
              where known.tenant_id = seen.tenant_id and known.key_id = seen.key_id and known.address = seen.address)),
  -- The newest hundred stay; what a report has beyond them is counted and not kept.
  kept as (
    insert into keys.api_key_address (tenant_id, key_id, address, last_used_at)
    select fresh.tenant_id, fresh.key_id, fresh.address, fresh.at
      from fresh
     where fresh.place <= 100
        on conflict do nothing
    returning tenant_id, key_id, address),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, address)
    select kept.tenant_id, kept.key_id, 'used_from_new_address', kept.address
      from kept
      join fresh on fresh.tenant_id = kept.tenant_id and fresh.key_id = kept.key_id and fresh.address = kept.address
     where fresh.held + fresh.place <= 100 or fresh.place <= 5)
  insert into keys.api_key_address_drop as d (tenant_id, key_id, dropped)
  select fresh.tenant_id, fresh.key_id, pg_catalog.count(*)
    from fresh
   where fresh.place > 100
   group by fresh.tenant_id, fresh.key_id
      on conflict (tenant_id, key_id) do update set dropped = d.dropped + excluded.dropped;

  -- A statement of its own: it sees what the one before has added.
  with placed as (
    select a.tenant_id, a.key_id, a.address,
           pg_catalog.row_number() over (
             partition by a.tenant_id, a.key_id order by a.last_used_at desc, a.first_used_at desc, a.address) as place
      from keys.api_key_address as a
     where (a.tenant_id, a.key_id) in (
             select u."tenantId", u."keyId"
               from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))),
  dropped as (
    delete from keys.api_key_address as a
     using placed
     where placed.place > 100
       and a.tenant_id = placed.tenant_id and a.key_id = placed.key_id and a.address = placed.address
    returning a.tenant_id, a.key_id)
  insert into keys.api_key_address_drop as d (tenant_id, key_id, dropped)
  select dropped.tenant_id, dropped.key_id, pg_catalog.count(*)
    from dropped
   group by dropped.tenant_id, dropped.key_id
      on conflict (tenant_id, key_id) do update set dropped = d.dropped + excluded.dropped;
end
$function$;

set local role postern_owner;
revoke create on schema keys from postern_keys_definer;
