-- A key and the one that replaces it share one limit while both work, and so does a chain of rotations.
-- suits the running release: keys are made, changed and refused as before; the column is set by the trigger alone.

alter table keys.api_key add column limit_id uuid;
comment on column keys.api_key.limit_id is 'Under which id the requests of the key are counted: that of the first key of its chain of rotations. Null in keys from before.';

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
    if new.revoked_at is not null or new.last_used_at is not null or new.version <> 1 then
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

create function keys.find_key_and_limit(wanted bytea)
 returns table(id uuid, tenant_id uuid, tenant_name text, tenant_status text, tenant_version integer, label text, last_four text, scopes text[], allowed_addresses text[], expires_at_ms bigint, revoked boolean, version integer, key_limit integer, tenant_limit integer, limit_id uuid, read_at_ms bigint)
 language sql stable security definer set search_path = ''
as $function$
  select k.id, k.tenant_id, t.name, t.status, t.version, k.label, k.last_four,
         k.scopes, k.allowed_addresses::pg_catalog.text[], pg_catalog.floor(extract(epoch from k.expires_at) * 1000)::pg_catalog.int8,
         k.revoked_at is not null, k.version, t.key_limit, t.tenant_limit,
         coalesce(k.limit_id, k.rotated_from, k.id),
         pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp()) * 1000)::pg_catalog.int8
    from keys.api_key as k
    join keys.tenant as t on t.tenant_id = k.tenant_id
   where k.hash = wanted
$function$;

revoke all on function keys.find_key_and_limit(bytea) from public;
grant execute on function keys.find_key_and_limit(bytea) to postern_keys;

grant create on schema keys to postern_keys_definer;
alter function keys.find_key_and_limit(bytea) owner to postern_keys_definer;
revoke create on schema keys from postern_keys_definer;
