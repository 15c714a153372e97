-- Mails about a key go to its owner.
-- suits the running release: it knows none of this

-- For the service that sends mails: what a mail about a key says, and how to find its owner. Of the tenant of the assertion.
create function keys.find_key_to_notify(key uuid)
returns table (
  label text, last_four text, is_leaked boolean, owner_type text, contact text, has_left boolean, directory_hash bytea)
language sql
stable
security definer
set search_path = ''
as $$
  -- api_key_pk, member_pk
  select k.label, k.last_four, k.revoked_by_type is not distinct from 'reporter', k.owner_type, k.owner_contact,
         m.left_at is not null, m.directory_hash
    from keys.api_key as k
    left join keys.member as m on m.tenant_id = k.tenant_id and k.owner_type = 'person' and m.id = k.owner_id
   where k.tenant_id = (select tenancy.tenant_id())
     and k.id = key
$$;
call tenancy.give_function('keys.find_key_to_notify(uuid)', 'postern_keys_definer', array['postern_sync']::name[]);
grant usage on schema keys to postern_sync;
