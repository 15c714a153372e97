-- A rule of the key policy: for how long audit events are kept.
-- suits the running release: the default is its 400 days
-- holds up writes: the tables hold one row for each tenant or change of a policy
-- holds up readers: the tables hold one row for each tenant or change of a policy

alter table keys.tenant
  add column audit_retention_days integer not null default 400,
  add constraint tenant_audit_retention_days_range check (audit_retention_days between 90 and 3650);
comment on column keys.tenant.audit_retention_days is 'For how many days audit events are kept.';
grant update (audit_retention_days) on keys.tenant to postern_keys;

alter table keys.key_policy_event add column audit_retention_days integer not null default 400;

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
          new.revoke_idle_days, new.audit_retention_days)
      is distinct from
         (old.max_key_days, old.required_addresses, old.forbid_wildcards, old.require_owner, old.most_keys, old.rotation_days,
          old.revoke_idle_days, old.audit_retention_days)
    then 1 else 0 end;
  new.revoke_idle_since := case
    when new.revoke_idle_days < coalesce(old.revoke_idle_days, 'infinity'::pg_catalog.float8) or new.status <> old.status
      then pg_catalog.clock_timestamp()
    else old.revoke_idle_since end;
  return new;
end
$$;

create function keys.set_audit_retention() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform tenancy.set_audit_retention(new.tenant_id, new.audit_retention_days);
  return null;
end
$$;
call tenancy.give_function('keys.set_audit_retention()', 'postern_keys_definer', array[]::name[]);

-- The owner creates the trigger.
set local role postern_keys_definer;
grant execute on function keys.set_audit_retention() to postern_owner;
set local role postern_owner;
create trigger sets_audit_retention after update of audit_retention_days on keys.tenant for each row
  when (new.audit_retention_days <> old.audit_retention_days) execute function keys.set_audit_retention();
