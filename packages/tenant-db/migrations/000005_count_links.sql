-- How much of one service points at a resource of another: counted here, because neither reads the other's schema.

create table tenancy.link_count (
  tenant_id uuid not null,
  -- What points at the resource.
  kind text not null,
  resource_id uuid not null,
  links integer not null,
  constraint link_count_pk primary key (tenant_id, kind, resource_id),
  constraint link_count_positive check (links > 0)
);

call tenancy.admit_definer('tenancy.link_count', 'postern_tenancy', array['select', 'insert', 'update']);
-- The universe shows how much evidence a test procedure has; it learns that number and nothing of the evidence.
call tenancy.protect_table('tenancy.link_count', 'postern_universe', array['select']);

-- Counts the rows that a statement has inserted. They have passed the policies of their own table by then, so their
-- tenant is the one to count them for. Rows that name no id point at nothing.
-- Arguments: the kind, and the column that holds the id as text.
create function tenancy.count_new_links() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  execute pg_catalog.format($dml$
    insert into tenancy.link_count as c (tenant_id, kind, resource_id, links)
    select r.tenant_id, $1, r.%1$I::pg_catalog.uuid, pg_catalog.count(*)
      from new_rows as r
     where r.%1$I ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
     group by r.tenant_id, r.%1$I
     order by r.tenant_id, r.%1$I
    on conflict (tenant_id, kind, resource_id) do update
       set links = c.links + excluded.links$dml$, tg_argv[1])
    using tg_argv[0];
  return null;
end
$$;

call tenancy.give_function('tenancy.count_new_links()', 'postern_tenancy', array[]::name[]);
set local role postern_tenancy;
grant execute on function tenancy.count_new_links() to postern_owner;
set local role postern_owner;

-- Counts the rows of an append-only tenant table by the id that `id_column` holds as text.
create procedure tenancy.count_links(counted pg_catalog.regclass, kind pg_catalog.text, id_column pg_catalog.name)
language plpgsql
set search_path = ''
as $$
begin
  execute pg_catalog.format('create trigger count_new_links after insert on %s referencing new table as new_rows '
    'for each statement execute function tenancy.count_new_links(%L, %L)', counted, kind, id_column);
end
$$;
