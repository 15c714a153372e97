-- Whoever reports the value of a key revokes it, before anybody knows its tenant.
-- suits the running release: it writes no reporters, and shows any type of actor
-- holds up writes: a tenant has some thousand keys, and the check of a hundred thousand takes a second
-- holds up readers: a tenant has some thousand keys, and the check of a hundred thousand takes a second

alter table keys.api_key
  drop constraint api_key_revoked_by_type_known,
  add constraint api_key_revoked_by_type_known check (revoked_by_type in ('user', 'machine', 'operator', 'reporter'));

grant update (revoked_at, revoked_by_type, revoked_by_id, revoked_by_label, revoke_reason)
  on keys.api_key to postern_keys_definer;

-- Revokes the keys with these hashes, each with its event, and returns all that exist. A revoked key stays as it is. A server
-- that cannot write rejects every call, so its answer does not tell whether a key exists.
create function keys.revoke_leaked_keys(
  hashes bytea[], details jsonb[], reporter_id text, reporter_label text, reporter_address text)
returns table (hash bytea, id uuid, tenant_id uuid, revoked_now boolean)
language sql
security definer
set search_path = ''
as $$
  with reported as (
    select r.hash, r.detail
      from rows from (pg_catalog.unnest(hashes), pg_catalog.unnest(details)) as r (hash, detail)),
  -- In one order, so that two reports of the same keys do not lock each other out.
  known as (
    select k.tenant_id, k.id, k.hash, k.revoked_at
      from keys.api_key as k
     where k.hash in (select r.hash from reported as r)
     order by k.tenant_id, k.id
       for no key update),
  revoked as (
    update keys.api_key as k
       set revoked_at = pg_catalog.clock_timestamp(), revoked_by_type = 'reporter', revoked_by_id = reporter_id,
           revoked_by_label = reporter_label, revoke_reason = 'Reported as leaked'
      from known
     where k.tenant_id = known.tenant_id
       and k.id = known.id
       and known.revoked_at is null
    returning k.tenant_id, k.id, k.hash, k.revoke_reason),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, address, detail)
    select v.tenant_id, v.id, 'revoked', 'reporter', reporter_id, reporter_label, reporter_address,
           pg_catalog.jsonb_build_object('reason', v.revoke_reason) operator(pg_catalog.||) r.detail
      from revoked as v
      join reported as r on r.hash = v.hash)
  select known.hash, known.id, known.tenant_id, v.id is not null
    from known
    left join revoked as v on v.tenant_id = known.tenant_id and v.id = known.id
$$;
call tenancy.give_function(
  'keys.revoke_leaked_keys(bytea[], jsonb[], text, text, text)', 'postern_keys_definer', array['postern_keys']);
