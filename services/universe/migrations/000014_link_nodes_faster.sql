-- A hierarchy that links many entities is taken in with less work: that both ends of a link are there is held once a statement, and no
-- longer by two foreign keys, which were looked up for each link.
--
-- suits the running release: what is refused is what the foreign keys have refused. The service deletes neither nodes nor entities.

lock table universe.entity, universe.node, universe.node_entity in access exclusive mode;

alter table universe.node_entity drop constraint node_entity_node_fk, drop constraint node_entity_entity_fk;

-- INVARIANT, as by the foreign keys: a link is that of a node and an entity of its tenant. One look into each primary key for each
-- link, also by a plan that a connection has made while both tables were small.
create function universe.guard_node_entity() returns trigger
  language plpgsql
  set search_path = ''
  set enable_seqscan = off
as $$
begin
  perform
  from new_link link
  where (select 1 from universe.node n where n.tenant_id = link.tenant_id and n.id = link.node_id) is null
    or (select 1 from universe.entity e where e.tenant_id = link.tenant_id and e.id = link.entity_id) is null
  limit 1;
  if found then
    raise exception using
      errcode = 'foreign_key_violation', schema = 'universe', table = 'node_entity', constraint = 'node_entity_of_both',
      message = 'a link is that of a node and an entity';
  end if;
  return null;
end
$$;
create trigger node_entity_of_both_when_made after insert on universe.node_entity
  referencing new table as new_link
  for each statement execute function universe.guard_node_entity();
create trigger node_entity_of_both_when_changed after update on universe.node_entity
  referencing new table as new_link
  for each statement execute function universe.guard_node_entity();

-- INVARIANT, as by the foreign keys: what others need does not go away.
create or replace function universe.keep_needed_entity() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if tg_op = 'DELETE' then
    if not exists (select from universe.entity child where child.tenant_id = old.tenant_id and child.parent_id = old.id)
      and not exists (
        select from universe.entity_path place where place.tenant_id = old.tenant_id and place.entity_id = old.id
      )
      and not exists (
        select from universe.node_entity link where link.tenant_id = old.tenant_id and link.entity_id = old.id
      )
    then
      return old;
    end if;
  end if;
  raise exception using
    errcode = 'foreign_key_violation', schema = 'universe', table = 'entity', constraint = 'entity_needed',
    message = 'others need the entity';
end
$$;

create function universe.keep_needed_node() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if tg_op = 'DELETE' then
    if not exists (select from universe.node_entity link where link.tenant_id = old.tenant_id and link.node_id = old.id) then
      return old;
    end if;
  end if;
  raise exception using
    errcode = 'foreign_key_violation', schema = 'universe', table = 'node', constraint = 'node_needed',
    message = 'others need the node';
end
$$;
create trigger node_needed before delete on universe.node
  for each row execute function universe.keep_needed_node();
create trigger node_never_emptied before truncate on universe.node
  for each statement execute function universe.keep_needed_node();
