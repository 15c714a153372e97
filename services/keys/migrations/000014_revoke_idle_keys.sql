-- A rule of the key policy: keys that nobody uses are revoked, after they were announced.
-- suits the running release: the rule is off until an administrator of the new release sets it, and any type of actor is shown
-- holds up writes: a tenant has some thousand keys, and the check of a hundred thousand takes a second
-- holds up readers: a tenant has some thousand keys, and the check of a hundred thousand takes a second

alter table keys.tenant
  add column revoke_idle_days integer,
  add column revoke_idle_since timestamptz not null default '-infinity',
  add constraint tenant_revoke_idle_days_range check (revoke_idle_days between 2 and 1825);
comment on column keys.tenant.revoke_idle_days is 'After how many days without a use a key is revoked; null for never.';
comment on column keys.tenant.revoke_idle_since is 'Idle days count from here at the earliest: since the rule is that strict, and the tenant is active.';
grant update (revoke_idle_days) on keys.tenant to postern_keys;

alter table keys.key_policy_event add column revoke_idle_days integer;

alter table keys.api_key
  drop constraint api_key_revoked_by_type_known,
  add constraint api_key_revoked_by_type_known check (revoked_by_type in ('user', 'machine', 'operator', 'reporter', 'policy'));

create or replace function keys.guard_tenant() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if (new.tenant_id, new.slug, new.created_at) is distinct from (old.tenant_id, old.slug, old.created_at) then
    raise exception using errcode = '23514', constraint = 'tenant_origin_is_fixed', message = 'what a tenant was made as never changes';
  end if;
  new.version := old.version + case
    when (new.status, new.name, new.key_limit, new.tenant_limit)
      is distinct from (old.status, old.name, old.key_limit, old.tenant_limit) then 1 else 0 end;
  new.policy_version := old.policy_version + case
    when (new.max_key_days, new.required_addresses, new.forbid_wildcards, new.require_owner, new.most_keys, new.rotation_days,
          new.revoke_idle_days)
      is distinct from
         (old.max_key_days, old.required_addresses, old.forbid_wildcards, old.require_owner, old.most_keys, old.rotation_days,
          old.revoke_idle_days)
    then 1 else 0 end;
  new.revoke_idle_since := case
    when new.revoke_idle_days < coalesce(old.revoke_idle_days, 'infinity'::pg_catalog.float8) or new.status <> old.status
      then pg_catalog.clock_timestamp()
    else old.revoke_idle_since end;
  return new;
end
$$;

-- The last announcement of each key that the rule is about to revoke.
create table keys.idle_notice (
  tenant_id uuid not null,
  key_id uuid not null,
  due_at timestamptz not null,
  days integer not null,
  noted_at timestamptz not null default now(),
  constraint idle_notice_pk primary key (tenant_id, key_id),
  constraint idle_notice_days_known check (days in (1, 7, 14, 30)),
  constraint idle_notice_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id)
);
comment on column keys.idle_notice.due_at is 'When the key was idle for too long. Another use makes it later.';
comment on column keys.idle_notice.noted_at is 'When this time was announced first.';
call tenancy.admit_definer('keys.idle_notice', 'postern_keys_definer', array['select', 'insert', 'update']);

create trigger notes_idle after insert on keys.idle_notice for each row
  execute function tenancy.note_event('key_id', 'key.expiring');
create trigger notes_idle_again after update on keys.idle_notice for each row
  execute function tenancy.note_event('key_id', 'key.expiring');

-- Active keys of tenants with the rule, and when each was idle for too long. No use before `counted_from` is known for certain.
create view keys.idle_key with (security_invoker) as
  select k.tenant_id, k.id, t.revoke_idle_days,
         greatest(k.last_used_at, k.created_at, t.revoke_idle_since, w.counted_from) + t.revoke_idle_days * interval '24 hours' as due_at
    from keys.api_key as k
    join keys.tenant as t on t.tenant_id = k.tenant_id
   cross join keys.usage_watch as w
   where t.revoke_idle_days is not null
     and t.status = 'active'
     and k.revoked_at is null
     and k.expires_at > clock_timestamp()
     -- api_key_last_used
     and coalesce(k.last_used_at, '-infinity') <= clock_timestamp() - t.revoke_idle_days * interval '24 hours' + interval '30 days';
grant select on keys.idle_key to postern_keys_definer;

-- Announces keys 30, 14, 7 and 1 days before they are revoked, as far as the rule is that long.
create function keys.note_idle() returns void
language sql
security definer
set search_path = ''
as $$
  insert into keys.idle_notice as n (tenant_id, key_id, due_at, days)
  select i.tenant_id, i.id, i.due_at, d.days
    from keys.idle_key as i
   cross join lateral (
           select pg_catalog.min(v.days) as days
             from (values (30), (14), (7), (1)) as v (days)
            where v.days < i.revoke_idle_days
              and i.due_at <= pg_catalog.clock_timestamp() + pg_catalog.make_interval(days => v.days)) as d
   where d.days is not null
   order by i.tenant_id, i.id
      on conflict (tenant_id, key_id) do update
     set due_at = excluded.due_at, days = excluded.days,
         noted_at = case when n.due_at = excluded.due_at then n.noted_at else excluded.noted_at end
   where (n.due_at, n.days) is distinct from (excluded.due_at, excluded.days)
$$;
call tenancy.give_function('keys.note_idle()', 'postern_keys_definer', array['postern_keys']);

-- Revokes up to that many keys that were announced a day ago, and were due a day ago, so that no late report of a use is missed.
create function keys.revoke_idle_keys(at_most integer) returns table (tenant_id uuid, id uuid, hash bytea)
language sql
security definer
set search_path = ''
as $$
  with due as (
    select k.tenant_id, k.id, i.revoke_idle_days
      from keys.idle_notice as n
      join keys.idle_key as i on i.tenant_id = n.tenant_id and i.id = n.key_id and i.due_at = n.due_at
      join keys.api_key as k on k.tenant_id = n.tenant_id and k.id = n.key_id
     where n.due_at <= pg_catalog.clock_timestamp() - interval '1 day'
       and n.noted_at <= pg_catalog.clock_timestamp() - interval '1 day'
     order by k.tenant_id, k.id
     limit at_most
       for no key update of k),
  -- Another statement may have used the key before it was locked.
  revoked as (
    update keys.api_key as k
       set revoked_at = pg_catalog.clock_timestamp(), revoked_by_type = 'policy', revoked_by_id = 'revoke_idle_days',
           revoked_by_label = 'Key policy',
           revoke_reason = pg_catalog.format('Not used for %s days', due.revoke_idle_days)
      from due
     where k.tenant_id = due.tenant_id
       and k.id = due.id
       and k.revoked_at is null
       and coalesce(k.last_used_at, '-infinity') <= pg_catalog.clock_timestamp() - (due.revoke_idle_days + 1) * interval '24 hours'
    returning k.tenant_id, k.id, k.hash, k.revoked_by_type, k.revoked_by_id, k.revoked_by_label, k.revoke_reason),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, detail)
    select v.tenant_id, v.id, 'revoked', v.revoked_by_type, v.revoked_by_id, v.revoked_by_label,
           pg_catalog.jsonb_build_object('reason', v.revoke_reason)
      from revoked as v)
  select v.tenant_id, v.id, v.hash from revoked as v
$$;
call tenancy.give_function('keys.revoke_idle_keys(integer)', 'postern_keys_definer', array['postern_keys']);
