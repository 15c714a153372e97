-- Of a row that two connectors bring, who has read it last holds what is known of it. That the source of the other has it as well was
-- forgotten with that: where either lost the row it was taken for gone, though the other still had it.
--
-- suits the running release: what its runs take over is noted by the trigger. What they miss they take for gone, as before.

create table sync.also_brought (
  tenant_id uuid not null,
  scope text not null,
  source_key text not null,
  connector_id uuid not null,
  constraint also_brought_pk primary key (tenant_id, scope, source_key, connector_id),
  constraint also_brought_connector_fk foreign key (tenant_id, connector_id) references sync.connector (tenant_id, id)
);
comment on table sync.also_brought is
  'Connectors whose source had a known row when it was last read, beside the one that the known row names.';
create index also_brought_by_connector on sync.also_brought (tenant_id, connector_id, scope, source_key);
call tenancy.protect_table('sync.also_brought', 'postern_sync', array['select', 'insert', 'delete']);

create function sync.keep_who_else_brings() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if old.missing_since is null then
    insert into sync.also_brought (tenant_id, scope, source_key, connector_id)
    values (old.tenant_id, old.scope, old.source_key, old.connector_id)
    on conflict do nothing;
  end if;
  delete from sync.also_brought b
  where b.tenant_id = new.tenant_id and b.scope = new.scope and b.source_key = new.source_key
    and b.connector_id = new.connector_id;
  return null;
end
$$;

-- Most updates change no owner, and cost the comparison alone.
create trigger known_row_keeps_who_else_brings after update on sync.known_row
  for each row when (old.connector_id <> new.connector_id) execute function sync.keep_who_else_brings();
