-- Who is brought by an authoritative connector has access while active, by the names that gateways ask for.
-- suits the running release: it marks no connector as authoritative, so its writes publish nothing

alter table universe.source_connector add column is_authoritative boolean not null default false;
comment on column universe.source_connector.is_authoritative is 'Whether people whom it brings have access only while active.';

-- Publishes the current state of people. Whoever is not brought any longer keeps the last one, as a former name.
create function universe.publish_people(of_tenant uuid, ids uuid[]) returns void
  language plpgsql
  set search_path = ''
  set enable_nestloop = on
as $$
begin
  with person as materialized (
    select p.id, p.active, p.external_id, p.email, exists (
        select
        from universe.source_row s
        join universe.source_connector c on c.tenant_id = s.tenant_id and c.connector_id = s.connector_id
        where s.tenant_id = p.tenant_id and s.scope = 'people' and s.source_key = p.external_id
          and c.is_authoritative and c.retired_at is null
      ) as is_brought
    from universe.person p
    where p.tenant_id = of_tenant and p.id = any (ids)
  ),
  name as materialized (
    select person.id, person.active, tenancy.hash_name(of_tenant, held.attribute, held.name) as hash
    from person
    cross join lateral (values ('externalId', person.external_id), ('emails.value', person.email)) as held (attribute, name)
    where person.is_brought and held.name is not null
  ),
  current as (
    insert into tenancy.directory_name as d (tenant_id, hash, person_id, source, is_active, is_current)
    select of_tenant, name.hash, name.id, 'people', name.active, true
    from name
    on conflict (tenant_id, hash, person_id) do update
    set is_active = excluded.is_active, is_current = true
    where (d.is_active, d.is_current) <> (excluded.is_active, true)
  )
  update tenancy.directory_name d
  set is_active = case when person.is_brought then person.active else d.is_active end, is_current = false
  from person
  where d.tenant_id = of_tenant and d.person_id = person.id and d.source = 'people'
    and not exists (select from name where name.id = person.id and name.hash = d.hash)
    and (d.is_current or person.is_brought and d.is_active <> person.active);
end
$$;
grant execute on function universe.publish_people(uuid, uuid[]) to postern_universe;

-- `execute` plans each time: a plan for few rows is slow for many.
create function universe.publish_changed_people() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  execute '
    select universe.publish_people(changed.tenant_id, changed.ids)
    from (
      select after.tenant_id, array_agg(after.id) as ids
      from new_rows after
      join old_rows before on before.tenant_id = after.tenant_id and before.id = after.id
      where (after.active, after.email) is distinct from (before.active, before.email)
        and exists (
          select from universe.source_connector c where c.tenant_id = after.tenant_id and c.is_authoritative
        )
      group by after.tenant_id
    ) as changed';
  return null;
end
$$;
create trigger person_is_published after update on universe.person
  referencing old table as old_rows new table as new_rows
  for each statement execute function universe.publish_changed_people();

create function universe.publish_people_of_rows() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  execute '
    select universe.publish_people(brought.tenant_id, brought.ids)
    from (
      select r.tenant_id, array_agg(p.id) as ids
      from changed_rows r
      join universe.source_connector c on c.tenant_id = r.tenant_id and c.connector_id = r.connector_id and c.is_authoritative
      join universe.person p on p.tenant_id = r.tenant_id and p.external_id = r.source_key
      where r.scope = ''people''
      group by r.tenant_id
    ) as brought';
  return null;
end
$$;
create trigger source_row_publishes_new after insert on universe.source_row
  referencing new table as changed_rows
  for each statement execute function universe.publish_people_of_rows();
create trigger source_row_publishes_deleted after delete on universe.source_row
  referencing old table as changed_rows
  for each statement execute function universe.publish_people_of_rows();

create function universe.publish_people_of_connector() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  -- source_row_by_connector
  perform universe.publish_people(new.tenant_id, array(
    select p.id
    from universe.source_row s
    join universe.person p on p.tenant_id = s.tenant_id and p.external_id = s.source_key
    where s.tenant_id = new.tenant_id and s.connector_id = new.connector_id and s.scope = 'people'
  ));
  return null;
end
$$;
create trigger source_connector_publishes_people after update on universe.source_connector
  for each row when ((old.is_authoritative and old.retired_at is null) <> (new.is_authoritative and new.retired_at is null))
  execute function universe.publish_people_of_connector();
