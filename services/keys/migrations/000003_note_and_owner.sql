-- A key's note, and its owner: a person of the tenant or a team with a contact address.
-- suits the running release: it writes none of the columns, and the trigger makes the creator of a key its owner
-- holds up writes: a tenant has some thousand keys, and an index over a hundred thousand takes a second
-- holds up readers: a tenant has some thousand keys, and the update over a hundred thousand takes a few seconds

alter table keys.member add column left_at timestamptz;
comment on column keys.member.left_at is 'When a directory deactivated the person. Null while the person is active or in no directory.';

alter table keys.api_key
  add column note text,
  add column owner_type text,
  add column owner_id text,
  add column owner_name text,
  add column owner_contact text,
  add constraint api_key_note_length check (char_length(note) between 1 and 1000),
  add constraint api_key_owner_whole check (
    case owner_type
      when 'person' then num_nonnulls(owner_id, owner_name) = 2 and owner_contact is null
      when 'team' then num_nonnulls(owner_name, owner_contact) = 2 and owner_id is null
      else num_nonnulls(owner_type, owner_id, owner_name, owner_contact) = 0
    end),
  add constraint api_key_owner_length check (
    char_length(owner_id) <= 1000 and char_length(owner_name) <= 1000 and char_length(owner_contact) <= 254);
comment on column keys.api_key.owner_id is 'The id of a person. A team has owner_contact instead.';
comment on column keys.api_key.owner_name is 'The name of the owner when it became the owner.';

-- The owner of a table is otherwise subject to its policies and would find no row.
alter table keys.api_key no force row level security;
update keys.api_key as k
   set owner_type = 'person',
       owner_id = left(k.created_by_id, 1000),
       owner_name = left(k.created_by_label, 1000)
 where k.created_by_type = 'user';
alter table keys.api_key force row level security;

create index api_key_of_owner on keys.api_key (tenant_id, (coalesce(owner_id, owner_contact)), id);

grant update (note, owner_type, owner_id, owner_name, owner_contact) on keys.api_key to postern_keys;

create or replace function keys.guard_api_key() returns trigger
language plpgsql
set search_path = ''
as $$
declare
  moment constant timestamptz := pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp());
  max_days integer;
begin
  if tg_op = 'INSERT' then
    if new.revoked_at is not null or new.last_used_at is not null or new.last_refused_at is not null or new.version <> 1 then
      raise exception using errcode = '23514', constraint = 'api_key_begins_active', message = 'a key begins active and unused';
    end if;
    if new.created_at > moment then
      raise exception using errcode = '23514', constraint = 'api_key_created_now', message = 'a key is not made in the future';
    end if;
    select t.max_key_days into max_days from keys.tenant as t where t.tenant_id = new.tenant_id;
    if found and new.expires_at > new.created_at + pg_catalog.make_interval(hours => 24 * max_days) then
      raise exception using errcode = '23514', constraint = 'api_key_within_maximum', message = 'the key would live too long';
    end if;
    new.made_for := new.expires_at - new.created_at;
    select coalesce(k.limit_id, k.id) into new.limit_id
      from keys.api_key as k
     where k.tenant_id = new.tenant_id
       and k.id = new.rotated_from;
    -- The release before this column names no owner.
    if new.owner_type is null and new.created_by_type = 'user' then
      new.owner_type := 'person';
      new.owner_id := pg_catalog.left(new.created_by_id, 1000);
      new.owner_name := pg_catalog.left(new.created_by_label, 1000);
    end if;
    return new;
  end if;

  if (new.tenant_id, new.id, new.hash, new.last_four, new.created_by_type, new.created_by_id, new.created_by_label,
      new.created_at, new.made_for, new.rotated_from, new.limit_id)
     is distinct from
     (old.tenant_id, old.id, old.hash, old.last_four, old.created_by_type, old.created_by_id, old.created_by_label,
      old.created_at, old.made_for, old.rotated_from, old.limit_id) then
    raise exception using errcode = '23514', constraint = 'api_key_origin_is_fixed', message = 'what a key was made as never changes';
  end if;
  if new.last_used_at is null and old.last_used_at is not null or new.last_used_at < old.last_used_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_use_grows', message = 'the last use of a key never goes back';
  end if;
  if new.last_refused_at is null and old.last_refused_at is not null or new.last_refused_at < old.last_refused_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_refusal_grows', message = 'the last refusal of a key never goes back';
  end if;

  new.version := old.version;
  if (new.label, new.note, new.owner_type, new.owner_id, new.owner_name, new.owner_contact,
      new.scopes, new.allowed_addresses, new.expires_at,
      new.revoked_at, new.revoked_by_type, new.revoked_by_id, new.revoked_by_label, new.revoke_reason)
     is not distinct from
     (old.label, old.note, old.owner_type, old.owner_id, old.owner_name, old.owner_contact,
      old.scopes, old.allowed_addresses, old.expires_at,
      old.revoked_at, old.revoked_by_type, old.revoked_by_id, old.revoked_by_label, old.revoke_reason) then
    return new;
  end if;

  if old.revoked_at is not null then
    raise exception using errcode = '23514', constraint = 'api_key_revoked_is_final', message = 'a revoked key never changes';
  end if;
  if new.owner_type is null and old.owner_type is not null then
    raise exception using errcode = '23514', constraint = 'api_key_keeps_an_owner', message = 'a key gets another owner, never none';
  end if;
  if new.expires_at > old.expires_at
     or not keys.narrows_addresses(new.allowed_addresses, old.allowed_addresses)
     or exists (
          select
            from pg_catalog.unnest(new.scopes) as s (scope)
           where keys.covers_scope(old.scopes, s.scope) is not true) then
    raise exception using errcode = '23514', constraint = 'api_key_only_narrows', message = 'a key never gets wider';
  end if;
  if new.revoked_at is not null then
    -- The database's clock, whatever the writer thinks.
    new.revoked_at := moment;
  end if;
  new.version := old.version + 1;
  return new;
end
$$;
