-- What happens to keys, their policy and tenants is in the audit feed, in the transaction that does it.
-- suits the running release: it writes the same trails.
-- holds up writes: the index on keys.api_key takes less than a second for 100,000 keys.

call tenancy.admit_definer('keys.api_key_event', 'postern_keys_definer', array['insert', 'select']);

create function keys.audit_key_events() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  -- api_key_pk
  perform tenancy.record_audit_event(
            e.tenant_id, e.at, 'key',
            case
              when e.type = 'updated' then 'key.changed'
              when e.type = 'revoked' and e.actor_type = 'reporter' then 'key.leaked'
              when e.type = 'denied_revoked' then 'key.used_after_revocation'
              when e.type like 'denied_%' then 'key.refused'
              else 'key.' || e.type
            end,
            case when e.type like 'denied_%' then 'failure' else 'success' end,
            case
              when e.type like 'denied_%' then pg_catalog.substr(e.type, 8)
              else e.detail operator(pg_catalog.->>) 'reason'
            end,
            case
              when e.actor_type is not null then tenancy.audit_actor_type(e.actor_type)
              when e.type like 'denied_%' or e.type = 'used_from_new_address' then 'key'
              else 'system'
            end,
            coalesce(e.actor_id, k.id::pg_catalog.text), coalesce(e.actor_label, k.label),
            'key', k.id::pg_catalog.text, k.label, e.address)
     from (select * from made order by id) as e
     join keys.api_key as k on k.tenant_id = e.tenant_id and k.id = e.key_id;
  return null;
end
$$;
call tenancy.give_function('keys.audit_key_events()', 'postern_keys_definer', array[]::name[]);

create function keys.audit_key_expiry() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform tenancy.record_audit_event(
            k.tenant_id, k.expires_at, 'key', 'key.expired', 'success', null, 'system', null, 'Postern',
            'key', k.id::pg_catalog.text, k.label, null)
     from keys.api_key as k
    where k.tenant_id = new.tenant_id and k.id = new.key_id;
  return null;
end
$$;
call tenancy.give_function('keys.audit_key_expiry()', 'postern_keys_definer', array[]::name[]);

create function keys.audit_policy_event() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform tenancy.record_audit_event(
    new.tenant_id, new.at, 'key_policy', 'key_policy.changed', 'success', null, tenancy.audit_actor_type(new.actor_type),
    new.actor_id, new.actor_label, 'key_policy', new.version::pg_catalog.text, null, null);
  return null;
end
$$;
call tenancy.give_function('keys.audit_policy_event()', 'postern_keys_definer', array[]::name[]);

create function keys.audit_tenant_event() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform tenancy.record_audit_event(
    new.tenant_id, new.at, 'tenant', 'tenant.' || new.type, 'success', null, 'operator', coalesce(new.operator, 'operator'),
    coalesce(new.operator, 'operator'), 'tenant', new.tenant_id::pg_catalog.text, new.name, null);
  return null;
end
$$;
call tenancy.give_function('keys.audit_tenant_event()', 'postern_keys_definer', array[]::name[]);

-- The owner creates the triggers.
set local role postern_keys_definer;
grant execute on function keys.audit_key_events(), keys.audit_key_expiry(), keys.audit_policy_event(),
  keys.audit_tenant_event() to postern_owner;
set local role postern_owner;
create trigger audits_key_events after insert on keys.api_key_event referencing new table as made
  for each statement execute function keys.audit_key_events();
create trigger audits_expired after insert on keys.expiry_notice for each row
  when (new.days = 0) execute function keys.audit_key_expiry();
create trigger audits_policy after insert on keys.key_policy_event for each row execute function keys.audit_policy_event();
create trigger audits_tenant after insert on keys.tenant_event for each row execute function keys.audit_tenant_event();

-- Up to when expired keys were looked for, in all tenants. It starts with the release that writes the feed.
create table keys.expired_scan (
  one boolean not null default true,
  scanned_until timestamptz not null default now(),
  constraint expired_scan_pk primary key (one),
  constraint expired_scan_one_row check (one)
);
insert into keys.expired_scan default values;
call tenancy.admit_definer('keys.expired_scan', 'postern_keys_definer', array['select', 'update']);
create index api_key_expired on keys.api_key (expires_at) where revoked_at is null;

-- Notes the keys that expired since the last call, each once. Looks until a minute ago, so that changes which commit
-- meanwhile are seen.
create function keys.note_expired(most integer) returns integer
language plpgsql
security definer
set search_path = ''
as $$
declare
  since pg_catalog.timestamptz;
  until pg_catalog.timestamptz := pg_catalog.now() - interval '1 minute';
  noted pg_catalog.int8;
begin
  select s.scanned_until into since from keys.expired_scan as s where s.scanned_until < until for update skip locked;
  if not found then
    return 0;
  end if;
  -- api_key_expired
  select coalesce(pg_catalog.max(next.expires_at), until)
    into until
    from (select k.expires_at
            from keys.api_key as k
           where k.expires_at > since and k.expires_at <= until and k.revoked_at is null
           order by k.expires_at
          offset greatest(most - 1, 0) limit 1) as next;
  insert into keys.expiry_notice (tenant_id, key_id, days)
  select k.tenant_id, k.id, 0
    from keys.api_key as k
   where k.expires_at > since and k.expires_at <= until and k.revoked_at is null
   order by k.expires_at, k.id
      on conflict do nothing;
  get diagnostics noted = row_count;
  update keys.expired_scan as s set scanned_until = until;
  return noted;
end
$$;
call tenancy.give_function('keys.note_expired(integer)', 'postern_keys_definer', array['postern_keys']);
