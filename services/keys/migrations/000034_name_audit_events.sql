-- Events of the audit feed name the key policy and who reported a leak, and sign-ins have the id of their request.
-- suits the running release: it writes the same rows, and its gateways send no ids

drop trigger audits_key_events on keys.api_key_event;
drop function keys.audit_key_events();
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
              -- Other reporters are their address.
              when e.actor_type = 'reporter' and e.actor_id <> e.address
                then pg_catalog.concat(e.detail operator(pg_catalog.->>) 'reason', ' by ', e.actor_label)
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

drop trigger audits_policy on keys.key_policy_event;
drop function keys.audit_policy_event();
create function keys.audit_policy_event() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform tenancy.record_audit_event(
    new.tenant_id, new.at, 'key_policy', 'key_policy.changed', 'success', null, tenancy.audit_actor_type(new.actor_type),
    new.actor_id, new.actor_label, 'key_policy', new.version::pg_catalog.text, 'Key policy', null);
  return null;
end
$$;

call tenancy.give_function('keys.audit_policy_event()', 'postern_keys_definer', array[]::name[]);

-- The owner creates the triggers.
set local role postern_keys_definer;
grant execute on function keys.audit_key_events(), keys.audit_policy_event() to postern_owner;
set local role postern_owner;
create trigger audits_key_events after insert on keys.api_key_event referencing new table as made
  for each statement execute function keys.audit_key_events();
create trigger audits_policy after insert on keys.key_policy_event for each row execute function keys.audit_policy_event();

drop function keys.record_sign_ins(jsonb);
-- Adds at most one event for each person, outcome, address and minute, and a hundred for each person, outcome and day (UTC).
create function keys.record_sign_ins(sign_ins jsonb) returns void
language sql
security definer
set search_path = ''
as $$
  with given as (
    select distinct on (t.tenant_id, s.id, s.reason, m.minute, s.address)
           t.tenant_id, t.name as tenant_name, s.id, s.name, coalesce(s.reason, '') as reason, s.address,
           s."requestId" as request_id, m.at, m.minute,
           pg_catalog.date_trunc('day', m.minute, 'UTC') as day
      from pg_catalog.jsonb_to_recordset(sign_ins)
           as s ("tenantId" pg_catalog.uuid, id pg_catalog.text, name pg_catalog.text, reason pg_catalog.text,
                 address pg_catalog.text, at pg_catalog.int8, "requestId" pg_catalog.text)
      join keys.tenant as t on t.tenant_id = s."tenantId"
     cross join lateral (select least(pg_catalog.to_timestamp(s.at / 1000.0), pg_catalog.clock_timestamp()) as at) as told
     cross join lateral (select told.at, pg_catalog.date_trunc('minute', told.at, 'UTC') as minute) as m
     order by t.tenant_id, s.id, s.reason, m.minute, s.address, m.at),
  numbered as (
    select g.*,
           pg_catalog.row_number() over (partition by g.tenant_id, g.id, g.reason, g.day order by g.minute, g.address)
             + (select pg_catalog.count(*)
                  from keys.sign_in as n
                 where n.tenant_id = g.tenant_id and n.person_id = g.id and n.reason = g.reason
                   and n.minute >= g.day and n.minute < g.day + interval '24 hours') as number
      from given as g),
  added as (
    insert into keys.sign_in (tenant_id, person_id, reason, minute, address)
    select n.tenant_id, n.id, n.reason, n.minute, n.address
      from numbered as n
     where n.number <= 100
     order by 1, 2, 3, 4, 5
        on conflict do nothing
    returning tenant_id, person_id, reason, minute, address)
  select tenancy.record_audit_event(
           g.tenant_id, g.at, 'sign_in', case when g.reason = '' then 'sign_in.succeeded' else 'sign_in.failed' end,
           case when g.reason = '' then 'success' else 'failure' end, nullif(g.reason, ''),
           'person', g.id, g.name, 'tenant', g.tenant_id::pg_catalog.text, g.tenant_name, g.address, g.request_id)
    from given as g
    join added as a on (a.tenant_id, a.person_id, a.reason, a.minute, a.address)
                         = (g.tenant_id, g.id, g.reason, g.minute, g.address)
$$;
call tenancy.give_function('keys.record_sign_ins(jsonb)', 'postern_keys_definer', array['postern_keys']);
