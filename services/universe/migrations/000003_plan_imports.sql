-- The universe compares what connectors bring, and keeps the changes of their runs.
-- suits the running release: its triggers refuse no write, and nothing has negative numbers of applied changes.
-- holds up writes: no release that is out writes to universe.import.
-- holds up readers: no release that is out reads universe.import.

alter table universe.import
  add column connector_id text not null default '',
  add column scope text not null default '',
  add column read_at timestamptz(3) not null default now(),
  add column rollback_of uuid,
  add column is_whole boolean not null default false,
  add column diff_hash text,
  add column applied_count integer not null default 0,
  add column is_finished boolean not null default false,
  add column is_cleared boolean not null default false,
  add constraint import_applied_count_not_negative check (applied_count >= 0);
comment on table universe.import is 'A run of a connector. Whoever writes its rows locks this row first.';
comment on column universe.import.attempt is 'Requests of an earlier attempt at the run are rejected.';
comment on column universe.import.applied_sequence is 'The seq of the last row that was applied; 0 if none was.';
comment on column universe.import.scope is 'The dataset; of a hierarchy followed by a slash and its key.';
comment on column universe.import.read_at is 'When the source was first read. What it lacks is missing since then.';
comment on column universe.import.rollback_of is 'The run that this one undoes.';
comment on column universe.import.is_whole is 'Whether the source was read completely, with a key in each row.';
comment on column universe.import.diff_hash is 'The hash of the changes, once all are known. Only these changes are applied.';
comment on column universe.import.is_finished is 'Whether all of its rows are applied or rejected.';
comment on column universe.import.is_cleared is 'Whether only changes are left of the rows of an ended run.';
create index import_by_connector on universe.import (tenant_id, connector_id, run_id);

-- Each connector that brings a key has a row for it.
create table universe.source_row (
  tenant_id uuid not null,
  scope text not null,
  source_key text not null,
  connector_id text not null,
  hash bytea,
  missing_since timestamptz(3),
  constraint source_row_pk primary key (tenant_id, scope, source_key, connector_id),
  constraint source_row_missing_has_no_hash check (missing_since is null or hash is null)
);
comment on table universe.source_row is 'What connectors have brought.';
comment on column universe.source_row.hash is
  'Of the row as the source had it when the stored resource was equal to it. Null after any other write of the resource.';
comment on column universe.source_row.missing_since is 'Since when the source lacks it.';
create index source_row_by_connector on universe.source_row (tenant_id, connector_id, scope, source_key);
create index source_row_missing on universe.source_row (tenant_id, connector_id, scope, source_key)
  where missing_since is not null;

call tenancy.protect_table('universe.source_row', 'postern_universe', array['select', 'insert', 'update', 'delete']);

create table universe.import_row (
  tenant_id uuid not null,
  run_id uuid not null,
  seq integer not null,
  op text not null,
  source_key text,
  parent_key text,
  hash bytea,
  content jsonb,
  before jsonb,
  errors jsonb,
  constraint import_row_pk primary key (tenant_id, run_id, seq),
  constraint import_row_op_known check (
    op in ('create', 'update', 'move', 'deactivate', 'reactivate', 'keep', 'miss', 'leave', 'gone', 'invalid')
  ),
  constraint import_row_change_is_whole check (
    op not in ('create', 'update', 'move', 'deactivate', 'reactivate')
    or source_key is not null and content is not null and (before is null) = (op = 'create')
  )
);
comment on table universe.import_row is
  'The rows of a run that its connector did not bring before in this form: staged as if each creates something, then compared.';
comment on column universe.import_row.seq is
  'Rows are applied in this order: the depth times ten million, and the number of the row in the source.';
comment on column universe.import_row.op is
  'keep: stored like this already. miss: the source lacks it. leave: the source lacks it, and another connector brings it. gone: not yet decided.';
comment on column universe.import_row.errors is 'Why the row was rejected: objects with field, code, message and excerpt.';
-- Serves the question which later runs changed a row, which decides whether a run can be rolled back.
create index import_row_changed on universe.import_row (tenant_id, source_key, run_id) where before is not null;

-- INVARIANT: a row stays with its run.
create function universe.keep_import_row() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  raise exception using
    errcode = 'insufficient_privilege', schema = 'universe', table = 'import_row', constraint = 'import_row_kept',
    message = 'the row stays with the run that it was made for';
end
$$;

create trigger import_row_kept before update of tenant_id, run_id on universe.import_row
  for each statement execute function universe.keep_import_row();

call tenancy.protect_table('universe.import_row', 'postern_universe', array['select', 'insert', 'update', 'delete']);

create table universe.import_batch (
  tenant_id uuid not null,
  run_id uuid not null,
  last_seq integer not null,
  applied_at timestamptz(3) not null default now(),
  constraint import_batch_pk primary key (tenant_id, run_id, last_seq)
);
comment on table universe.import_batch is 'When the rows of a run up to a seq were applied.';

call tenancy.protect_table('universe.import_batch', 'postern_universe', array['select', 'insert']);

-- As before, with a plan of its own for each update: one for few rows is slow for many.
create or replace function universe.guard_entity_tree() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  moved record;
begin
  for moved in execute '
    select after.tenant_id, array_agg(after.id) as ids
    from new_entity after
    join old_entity before on before.tenant_id = after.tenant_id and before.id = after.id
    where after.parent_id is distinct from before.parent_id
    group by after.tenant_id'
  loop
    perform universe.place_entities(moved.tenant_id, moved.ids);
  end loop;
  return null;
end
$$;

-- INVARIANT: a hash says that the stored resource is equal to the row of the source. Any other write removes it; an import
-- sets it in its transaction, after this.
create function universe.forget_source_hashes() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  -- `execute` plans each time, and arrays are looked up by the index: a plan for few rows is slow for many.
  case tg_table_name
    when 'entity' then
      -- Where it comes from says nothing of its content.
      execute '
        update universe.source_row source
        set hash = null
        where source.tenant_id = any (array(select distinct after.tenant_id from new_rows after))
          and source.scope = ''auditable_entities'' and source.hash is not null
          and source.source_key = any (array(
            select after.external_id
            from new_rows after
            join old_rows before on before.tenant_id = after.tenant_id and before.id = after.id
            where (after.source_connector_id, after.source_first_seen_at, after.source_last_seen_at, after.source_missing_since)
              is not distinct from
              (before.source_connector_id, before.source_first_seen_at, before.source_last_seen_at, before.source_missing_since)
          ))';
    when 'node' then
      execute '
        update universe.source_row source
        set hash = null
        from (
          select after.tenant_id, after.hierarchy_id, array_agg(after.node_key) as keys
          from new_rows after
          group by after.tenant_id, after.hierarchy_id
        ) as changed
        join universe.hierarchy h on h.tenant_id = changed.tenant_id and h.id = changed.hierarchy_id
        where source.tenant_id = changed.tenant_id and source.scope = ''org_structure/'' || h.key
          and source.source_key = any (changed.keys) and source.hash is not null';
    when 'person' then
      execute '
        update universe.source_row source
        set hash = null
        where source.tenant_id = any (array(select distinct after.tenant_id from new_rows after))
          and source.scope = ''people'' and source.hash is not null
          and source.source_key = any (array(select after.external_id from new_rows after))';
    when 'test_procedure' then
      execute '
        update universe.source_row source
        set hash = null
        where source.tenant_id = any (array(select distinct after.tenant_id from new_rows after))
          and source.scope = ''test_procedures'' and source.hash is not null
          and source.source_key = any (array(select after.external_id from new_rows after))';
  end case;
  return null;
end
$$;

create trigger entity_forgets_hashes after update on universe.entity
  referencing old table as old_rows new table as new_rows
  for each statement execute function universe.forget_source_hashes();
create trigger node_forgets_hashes after update on universe.node
  referencing new table as new_rows
  for each statement execute function universe.forget_source_hashes();
create trigger person_forgets_hashes after update on universe.person
  referencing new table as new_rows
  for each statement execute function universe.forget_source_hashes();
create trigger test_procedure_forgets_hashes after update on universe.test_procedure
  referencing new table as new_rows
  for each statement execute function universe.forget_source_hashes();
