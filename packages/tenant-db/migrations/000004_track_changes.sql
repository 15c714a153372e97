-- The change feed: what has changed in a tenant, in the order in which it was committed.

-- One row a tenant: the last position that was given out, and the last one that is no longer kept.
create table tenancy.change_head (
  tenant_id uuid not null,
  last_position bigint not null,
  pruned_position bigint not null default 0,
  constraint change_head_pk primary key (tenant_id),
  constraint change_head_in_order check (pruned_position between 0 and last_position)
);

-- One row a transaction that has changed something.
create table tenancy.change_batch (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  -- The transaction while it runs. It is a number of the whole cluster, hence nothing of it is left for others to read.
  made_by xid8,
  -- Given at the commit. Numbers of a tenant's own, so that they tell nothing about the others.
  position bigint,
  committed_at timestamptz(3),
  constraint change_batch_pk primary key (tenant_id, id),
  constraint change_batch_position_unique unique (tenant_id, position),
  constraint change_batch_ends check ((made_by is null) = (position is not null and committed_at is not null))
);
create unique index change_batch_open on tenancy.change_batch (tenant_id, made_by) where made_by is not null;

create table tenancy.change (
  tenant_id uuid not null,
  batch_id uuid not null,
  ordinal integer not null,
  kind text not null,
  resource_id uuid not null,
  change text not null,
  version integer,
  constraint change_pk primary key (tenant_id, batch_id, ordinal),
  constraint change_known check (change in ('created', 'updated', 'deleted'))
);

call tenancy.admit_definer('tenancy.change_head', 'postern_tenancy', array['select', 'insert', 'update']);
call tenancy.admit_definer('tenancy.change_batch', 'postern_tenancy', array['select', 'insert', 'update', 'delete']);
call tenancy.admit_definer('tenancy.change', 'postern_tenancy', array['select', 'insert', 'delete']);
-- The findings service serves the feed; it learns kinds, ids and versions, and nothing of what is in a resource.
call tenancy.protect_table('tenancy.change_head', 'postern_findings', array['select']);
call tenancy.protect_table('tenancy.change_batch', 'postern_findings', array['select']);
call tenancy.protect_table('tenancy.change', 'postern_findings', array['select']);

-- Notes the rows that a statement has changed, in the batch of its transaction. The rows have passed the policies of
-- their own table by then, so their tenant is the one to note them for.
-- Arguments: the kind, the column of the id, and an expression for the version.
create function tenancy.note_changes() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  noted constant pg_catalog.text := case tg_op when 'DELETE' then 'old_rows' else 'new_rows' end;
  -- An update that has changed nothing is no change.
  changed constant pg_catalog.text := case tg_op
    when 'UPDATE' then pg_catalog.format(
      'where not exists (select from old_rows as o where o.tenant_id = r.tenant_id and o.%1$I = r.%1$I and o = r)', tg_argv[1])
    else ''
  end;
  tenant pg_catalog.uuid;
  batch pg_catalog.uuid;
begin
  for tenant in execute pg_catalog.format('select distinct r.tenant_id from %s as r %s', noted, changed) loop
    select b.id
      into batch
      from tenancy.change_batch as b
     where b.tenant_id = tenant
       and b.made_by = pg_catalog.pg_current_xact_id();
    if not found then
      insert into tenancy.change_batch (tenant_id, made_by)
      values (tenant, pg_catalog.pg_current_xact_id())
      returning id into batch;
    end if;
    execute pg_catalog.format($dml$
      insert into tenancy.change (tenant_id, batch_id, ordinal, kind, resource_id, change, version)
      select r.tenant_id, $2,
             coalesce((select max(c.ordinal) from tenancy.change as c where c.tenant_id = $1 and c.batch_id = $2), 0)
               + pg_catalog.row_number() over (order by r.%1$I),
             $3, r.%1$I, $4, %2$s
        from %3$s as r
       %4$s %5$s r.tenant_id = $1$dml$,
      tg_argv[1], tg_argv[2], noted, changed, case changed when '' then 'where' else 'and' end)
      using tenant, batch, tg_argv[0],
        case tg_op when 'INSERT' then 'created' when 'UPDATE' then 'updated' else 'deleted' end;
  end loop;
  return null;
end
$$;

-- INVARIANT: positions become visible in their order, without a gap that is filled later. The row of the head is locked
-- from here to the end of the commit, and PostgreSQL lets go of locks only after a commit is visible; so who sees a
-- position sees every lower one. It is the last thing a transaction does, hence others wait no longer than a commit takes.
create function tenancy.position_changes() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
declare
  given pg_catalog.int8;
  pruned pg_catalog.int8;
begin
  insert into tenancy.change_head as h (tenant_id, last_position)
  values (new.tenant_id, 1)
  on conflict (tenant_id) do update
     set last_position = h.last_position + 1
  returning last_position into given;

  update tenancy.change_batch as b
     set made_by = null,
         position = given,
         committed_at = pg_catalog.clock_timestamp()
   where b.tenant_id = new.tenant_id
     and b.id = new.id;

  -- What is older than 30 days goes, a few batches at a time, so that no commit pays for a long silence.
  with expired as (
    select oldest.id, oldest.position
      from (select b.id, b.position, b.committed_at
              from tenancy.change_batch as b
             where b.tenant_id = new.tenant_id
               and b.position is not null
             order by b.position
             limit 20) as oldest
     where oldest.committed_at < pg_catalog.clock_timestamp() - interval '30 days'
  ), forgotten as (
    delete from tenancy.change as c using expired where c.tenant_id = new.tenant_id and c.batch_id = expired.id
  ), gone as (
    delete from tenancy.change_batch as b using expired where b.tenant_id = new.tenant_id and b.id = expired.id
  )
  select pg_catalog.max(expired.position) into pruned from expired;
  if pruned is not null then
    update tenancy.change_head as h
       set pruned_position = pruned
     where h.tenant_id = new.tenant_id;
  end if;
  return null;
end
$$;

create constraint trigger position_changes after insert on tenancy.change_batch
  deferrable initially deferred
  for each row execute function tenancy.position_changes();

call tenancy.give_function('tenancy.note_changes()', 'postern_tenancy', array[]::name[]);
call tenancy.give_function('tenancy.position_changes()', 'postern_tenancy', array[]::name[]);
-- The owner makes triggers of it. It no longer owns the function, and only who does can say so.
set local role postern_tenancy;
grant execute on function tenancy.note_changes() to postern_owner;
set local role postern_owner;

-- Puts a tenant table into the change feed: whoever inserts, updates or deletes its rows, it is noted. `kind` is what the
-- feed calls a row of it; `id_column` holds the id under which the API shows it. A column `version` is noted with it.
create procedure tenancy.track_changes(
  tracked pg_catalog.regclass, kind pg_catalog.text, id_column pg_catalog.name default 'id')
language plpgsql
set search_path = ''
as $$
declare
  version constant pg_catalog.text := case when exists (
    select from pg_catalog.pg_attribute as a
     where a.attrelid = tracked and a.attname = 'version' and not a.attisdropped) then 'r.version' else 'null' end;
  arguments constant pg_catalog.text := pg_catalog.format('%L, %L, %L', kind, id_column, version);
begin
  execute pg_catalog.format('create trigger note_inserts after insert on %s referencing new table as new_rows '
    'for each statement execute function tenancy.note_changes(%s)', tracked, arguments);
  execute pg_catalog.format('create trigger note_updates after update on %s '
    'referencing old table as old_rows new table as new_rows '
    'for each statement execute function tenancy.note_changes(%s)', tracked, arguments);
  execute pg_catalog.format('create trigger note_deletes after delete on %s referencing old table as old_rows '
    'for each statement execute function tenancy.note_changes(%s)', tracked, arguments);
end
$$;
