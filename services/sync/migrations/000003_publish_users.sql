-- Publishes the names of users, and whether they are active, in the transaction that changes a user.
-- suits the running release: the trigger accepts every user, and the running release sets no names of its own
-- holds up writes: nobody can change a user while the names are filled in, which takes seconds for a hundred thousand users

create function sync.publish_user() returns trigger
language plpgsql
set search_path = ''
as $$
declare
  is_in constant boolean := new.active and new.deleted_at is null;
  hashes bytea[];
begin
  select pg_catalog.array_agg(distinct tenancy.hash_name(new.tenant_id, n.attribute, n.name))
    into hashes
    from (values ('userName', new.user_name), ('externalId', new.external_id)
          union all
          select 'emails.value', e.item ->> 'value'
            from pg_catalog.jsonb_array_elements(
                   case pg_catalog.jsonb_typeof(new.content -> 'emails') when 'array' then new.content -> 'emails' else '[]' end)
                 as e (item)) as n (attribute, name)
   where n.name is not null;
  insert into tenancy.directory_name as d (tenant_id, hash, person_id, is_active, is_current)
  select new.tenant_id, h.hash, new.id, is_in, true
    from pg_catalog.unnest(hashes) as h (hash)
      on conflict (tenant_id, hash, person_id) do update
     set is_active = excluded.is_active, is_current = true
   where (d.is_active, d.is_current) <> (excluded.is_active, true);
  update tenancy.directory_name as d
     set is_active = is_in, is_current = false
   where d.tenant_id = new.tenant_id
     and d.person_id = new.id
     and d.hash <> all (hashes)
     and (d.is_active, d.is_current) <> (is_in, false);
  return null;
end
$$;
grant execute on function sync.publish_user() to postern_sync;

create trigger scim_user_is_published
  after insert or update of user_name, external_id, active, content, deleted_at on sync.scim_user
  for each row execute function sync.publish_user();

-- The owner of a table is otherwise subject to its policies and would find no row.
alter table sync.scim_user no force row level security;
alter table tenancy.directory_name no force row level security;
update sync.scim_user as u set active = u.active;
alter table tenancy.directory_name force row level security;
alter table sync.scim_user force row level security;
