-- Who has made, suspended, resumed or changed a tenant stays in the database: a log is rotated, and a restore does not bring it
-- back. The operator sets a tenant's name and limits, and gateways learn of both as they learn of a suspension.
-- suits the running release: the functions that it calls stay, and what they change is in the trail without a name.

comment on column keys.tenant.version is
  'Grows with every change of status, name or limits: what a gateway has cached of a lower version is void.';

create table keys.tenant_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  type text not null,
  at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  operator text,
  name text not null,
  key_limit integer not null,
  tenant_limit integer not null,
  constraint tenant_event_pk primary key (tenant_id, id),
  constraint tenant_event_tenant_fk foreign key (tenant_id) references keys.tenant (tenant_id),
  constraint tenant_event_type_known check (type in ('created', 'suspended', 'resumed', 'changed')),
  constraint tenant_event_operator_length check (char_length(operator) between 1 and 1000)
);
comment on table keys.tenant_event is
  'Each change of a tenant by the operator, with the name and limits that it has from then on: only grows. A change and its event are one transaction.';
comment on column keys.tenant_event.operator is 'the name that the operator goes by; null where a release before the trail was asked';
create trigger tenant_event_only_grows before update or delete on keys.tenant_event
  for each row execute function tenancy.refuse_change();
create trigger tenant_event_never_emptied before truncate on keys.tenant_event
  for each statement execute function tenancy.refuse_change();

call tenancy.admit_definer('keys.tenant_event', 'postern_keys_definer', array['select', 'insert']);
grant update (name, key_limit, tenant_limit) on keys.tenant to postern_keys_definer;

-- By a trigger, so that no function can forget it. Who acts, the function has told the transaction.
create function keys.note_tenant_change() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  insert into keys.tenant_event (tenant_id, type, operator, name, key_limit, tenant_limit)
  values (
    new.tenant_id,
    case
      when tg_op = 'INSERT' then 'created'
      when new.status = old.status then 'changed'
      when new.status = 'suspended' then 'suspended'
      else 'resumed'
    end,
    nullif(pg_catalog.left(pg_catalog.current_setting('postern.operator', true), 1000), ''),
    new.name, new.key_limit, new.tenant_limit);
  return null;
end
$$;
create trigger tenant_made_is_noted after insert on keys.tenant
  for each row execute function keys.note_tenant_change();
create trigger tenant_change_is_noted after update on keys.tenant
  for each row when (new.version <> old.version) execute function keys.note_tenant_change();
grant execute on function keys.note_tenant_change() to postern_keys_definer;

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
    when (new.max_key_days, new.required_addresses) is distinct from (old.max_key_days, old.required_addresses) then 1 else 0 end;
  return new;
end
$$;

-- For the platform's operator, who proves it with his own assertion, and says who he is ---------------------------------

create function keys.make_tenant(new_slug text, new_name text, by_operator text)
returns table (id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamptz)
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform tenancy.assert_operator();
  perform pg_catalog.set_config('postern.operator', by_operator, true);
  return query
    insert into keys.tenant as t (slug, name) values (new_slug, new_name)
    returning t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at;
end
$$;

create function keys.page_of_tenants(behind_slug text, at_most integer)
returns table (id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamptz)
language sql
stable
security definer
set search_path = ''
as $$
  select t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at
    from keys.tenant as t
   where (select tenancy.assert_operator())
     and t.slug > coalesce(behind_slug, '')
   order by t.slug
   limit at_most
$$;

-- Sets what is given of the tenant with this id or slug, leaves what is null, and gives it as it is then.
create function keys.change_tenant(
  id_or_slug text, new_status text, new_name text, new_key_limit integer, new_tenant_limit integer, by_operator text)
returns table (id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamptz)
language plpgsql
security definer
set search_path = ''
as $$
declare
  found_id pg_catalog.uuid;
begin
  perform tenancy.assert_operator();
  perform pg_catalog.set_config('postern.operator', by_operator, true);
  select t.tenant_id into found_id from keys.tenant as t where id_or_slug in (t.tenant_id::pg_catalog.text, t.slug) for update;
  update keys.tenant as t
     set status = coalesce(new_status, t.status),
         name = coalesce(new_name, t.name),
         key_limit = coalesce(new_key_limit, t.key_limit),
         tenant_limit = coalesce(new_tenant_limit, t.tenant_limit)
   where t.tenant_id = found_id
     and (t.status, t.name, t.key_limit, t.tenant_limit) is distinct from
         (coalesce(new_status, t.status), coalesce(new_name, t.name), coalesce(new_key_limit, t.key_limit), coalesce(new_tenant_limit, t.tenant_limit));
  return query
    select t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at
      from keys.tenant as t where t.tenant_id = found_id;
end
$$;

-- The trail of the tenant with this id or slug, the latest first.
create function keys.page_of_tenant_events(id_or_slug text, before_id uuid, at_most integer)
returns table (id uuid, type text, at timestamptz, operator text, name text, key_limit integer, tenant_limit integer)
language sql
stable
security definer
set search_path = ''
as $$
  select e.id, e.type, e.at, e.operator, e.name, e.key_limit, e.tenant_limit
    from keys.tenant_event as e
    join keys.tenant as t on t.tenant_id = e.tenant_id
   where (select tenancy.assert_operator())
     and id_or_slug in (t.tenant_id::pg_catalog.text, t.slug)
     and (before_id is null or e.id < before_id)
   order by e.id desc
   limit at_most
$$;

do $$
declare
  routine text;
begin
  foreach routine in array array[
    'keys.make_tenant(text, text, text)', 'keys.page_of_tenants(text, integer)',
    'keys.change_tenant(text, text, text, integer, integer, text)', 'keys.page_of_tenant_events(text, uuid, integer)']
  loop
    call tenancy.give_function(routine::regprocedure, 'postern_keys_definer', array['postern_keys']);
  end loop;
end
$$;
