-- Entries of the audit trail, and the approaching end of keys, are events of webhooks.
-- suits the running release: it writes the same entries.
-- holds up writes: the index of a hundred thousand keys takes less than a second

create trigger notes_created after insert on keys.api_key_event for each row
  when (new.type = 'created') execute function tenancy.note_event('key_id', 'key.created');
create trigger notes_rotated after insert on keys.api_key_event for each row
  when (new.type = 'rotated') execute function tenancy.note_event('key_id', 'key.rotated');
create trigger notes_changed after insert on keys.api_key_event for each row
  when (new.type = 'updated') execute function tenancy.note_event('key_id', 'key.changed');
create trigger notes_revoked after insert on keys.api_key_event for each row
  when (new.type = 'revoked' and new.actor_type is distinct from 'reporter')
  execute function tenancy.note_event('key_id', 'key.revoked');
create trigger notes_leaked after insert on keys.api_key_event for each row
  when (new.type = 'revoked' and new.actor_type = 'reporter')
  execute function tenancy.note_event('key_id', 'key.leaked', 'key.revoked');
create trigger notes_new_address after insert on keys.api_key_event for each row
  when (new.type = 'used_from_new_address')
  execute function tenancy.note_event('key_id', 'key.used_from_new_address');
create trigger notes_use_after_revocation after insert on keys.api_key_event for each row
  when (new.type = 'denied_revoked')
  execute function tenancy.note_event('key_id', 'key.used_after_revocation');

-- Serves the search for keys that expire in a period.
create index api_key_by_expiry on keys.api_key (tenant_id, expires_at) where revoked_at is null;

-- How far the end of keys was looked for, in tenants that send events to webhooks.
create table keys.expiry_scan (
  tenant_id uuid not null,
  scanned_until timestamptz not null,
  constraint expiry_scan_pk primary key (tenant_id)
);
call tenancy.admit_definer('keys.expiry_scan', 'postern_keys_definer', array['select', 'insert', 'update']);

create table keys.expiry_notice (
  tenant_id uuid not null,
  key_id uuid not null,
  days integer not null,
  noted_at timestamptz not null default now(),
  constraint expiry_notice_pk primary key (tenant_id, key_id, days),
  constraint expiry_notice_days_known check (days in (0, 1, 7, 14, 30)),
  constraint expiry_notice_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id)
);
comment on column keys.expiry_notice.days is 'How long before its expiry; 0: it has expired.';
call tenancy.admit_definer('keys.expiry_notice', 'postern_keys_definer', array['select', 'insert']);

create trigger notes_expiring after insert on keys.expiry_notice for each row
  when (new.days > 0) execute function tenancy.note_event('key_id', 'key.expiring');
create trigger notes_expired after insert on keys.expiry_notice for each row
  when (new.days = 0) execute function tenancy.note_event('key_id', 'key.expired');

-- Notes the keys that came within 30, 14, 7 and 1 days of their expiry, or expired, since the last call: each once. Looks until
-- a minute ago, so that changes which commit meanwhile are seen.
create function keys.note_expiring() returns void
language plpgsql
security definer
set search_path = ''
as $$
declare
  scan record;
  until constant pg_catalog.timestamptz := pg_catalog.now() - interval '1 minute';
begin
  insert into keys.expiry_scan (tenant_id, scanned_until)
  select r.tenant_id, r.since from tenancy.list_event_readers() as r
      on conflict (tenant_id) do nothing;
  for scan in
    select s.tenant_id, greatest(s.scanned_until, r.since) as since
      from keys.expiry_scan as s
      join tenancy.list_event_readers() as r on r.tenant_id = s.tenant_id
     where s.scanned_until < until
     order by s.tenant_id
       for update of s skip locked
  loop
    -- api_key_by_expiry
    insert into keys.expiry_notice (tenant_id, key_id, days)
    select k.tenant_id, k.id, d.days
      from (values (30), (14), (7), (1), (0)) as d (days)
      join keys.api_key as k
        on k.tenant_id = scan.tenant_id
       and k.expires_at > scan.since + pg_catalog.make_interval(days => d.days)
       and k.expires_at <= until + pg_catalog.make_interval(days => d.days)
     where k.revoked_at is null
       and k.created_at <= k.expires_at - pg_catalog.make_interval(days => d.days)
     order by k.expires_at - pg_catalog.make_interval(days => d.days), k.id
        on conflict do nothing;
    update keys.expiry_scan as s set scanned_until = greatest(s.scanned_until, until) where s.tenant_id = scan.tenant_id;
  end loop;
end
$$;
call tenancy.give_function('keys.note_expiring()', 'postern_keys_definer', array['postern_keys']);
