-- How long audit events are kept is a rule of each tenant.
-- suits the running release: it names the columns that it writes, and the default is its 400 days
-- holds up writes: the table holds one row for each tenant
-- holds up readers: the table holds one row for each tenant

alter table tenancy.audit_head
  add column retention_days integer not null default 400,
  add constraint audit_head_retention_days_range check (retention_days between 90 and 3650);

-- For the trigger on the policy, which has checked who changes it.
create function tenancy.set_audit_retention(tenant uuid, days integer) returns void
language sql
security definer
set search_path = ''
as $$
  insert into tenancy.audit_head as h (tenant_id, last_position, retention_days) values (tenant, 0, days)
      on conflict (tenant_id) do update set retention_days = excluded.retention_days
$$;
call tenancy.give_function('tenancy.set_audit_retention(uuid, integer)', 'postern_tenancy', array['postern_keys_definer']::name[]);

drop function tenancy.maintain_audit_events(integer);
-- Deletes events that are older than their tenant keeps them, and places events that nobody has read for a minute: up to
-- `most` of each. Returns whether more may be left.
create function tenancy.maintain_audit_events(most integer) returns bool
language plpgsql
security definer
set search_path = ''
as $$
declare
  tenant pg_catalog.uuid;
  kept_days pg_catalog.int4;
  is_more pg_catalog.bool := false;
  deleted pg_catalog.int8;
begin
  for tenant in
    select h.tenant_id from tenancy.audit_head as h
    union
    select e.tenant_id from tenancy.audit_event as e where e.ended_at is not null
     order by tenant_id
  loop
    -- audit_event_unplaced
    perform from tenancy.audit_event as e
     where e.tenant_id = tenant and e.ended_at is not null and e.at < pg_catalog.clock_timestamp() - interval '1 minute'
     limit 1;
    if found then
      is_more := tenancy.place_audit_events(tenant, most) or is_more;
    end if;
    -- Events have a position only if their tenant has a head.
    select h.retention_days into kept_days from tenancy.audit_head as h where h.tenant_id = tenant;
    -- audit_event_by_time
    delete from tenancy.audit_event as e
     where e.tenant_id = tenant
       and e.id in (
             select o.id
               from tenancy.audit_event as o
              where o.tenant_id = tenant
                and o.position is not null
                and o.at < pg_catalog.clock_timestamp() - pg_catalog.make_interval(days => kept_days)
              order by o.at
              limit most);
    get diagnostics deleted = row_count;
    is_more := deleted = most or is_more;
  end loop;
  return is_more;
end
$$;
call tenancy.give_function('tenancy.maintain_audit_events(integer)', 'postern_tenancy', array['postern_keys']::name[]);
