-- The overlap of a rotation may begin with the first use of the new key.
-- suits the running release: it makes no such rotation, and a use that it records starts the overlap once this release runs

create table keys.pending_overlap (
  tenant_id uuid not null,
  key_id uuid not null,
  successor_id uuid not null,
  overlap text not null,
  constraint pending_overlap_pk primary key (tenant_id, key_id),
  constraint pending_overlap_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint pending_overlap_successor_fk foreign key (tenant_id, successor_id) references keys.api_key (tenant_id, id),
  constraint pending_overlap_form check (overlap ~ '^[0-9]{1,4}[smhd]$')
);
comment on table keys.pending_overlap is 'Rotated keys whose overlap begins when the successor is first used. Without effect once the successor is revoked or expired.';
call tenancy.protect_table('keys.pending_overlap', 'postern_keys', array['select', 'insert', 'update']);
call tenancy.admit_definer('keys.pending_overlap', 'postern_keys_definer', array['select', 'update', 'delete']);

grant update (expires_at) on keys.api_key to postern_keys_definer;

-- Begins up to that many overlaps whose new key was used, each with its event, and returns the old keys that now end earlier.
create function keys.start_overlaps(at_most integer) returns table (tenant_id uuid, id uuid, hash bytea)
language sql
security definer
set search_path = ''
as $$
  with due as (
    select k.tenant_id, k.id, k.expires_at, p.successor_id, p.overlap,
           pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp()) + pg_catalog.make_interval(secs =>
             pg_catalog.left(p.overlap, -1)::pg_catalog.int4 * case pg_catalog.right(p.overlap, 1)
               when 's' then 1 when 'm' then 60 when 'h' then 3600 else 86400 end) as ends_at
      from keys.pending_overlap as p
      join keys.api_key as s on s.tenant_id = p.tenant_id and s.id = p.successor_id
      join keys.api_key as k on k.tenant_id = p.tenant_id and k.id = p.key_id
     where s.last_used_at is not null
       and s.revoked_at is null
       and s.expires_at > pg_catalog.clock_timestamp()
       and k.revoked_at is null
       and k.expires_at > pg_catalog.clock_timestamp()
     order by k.tenant_id, k.id
     limit at_most
       for no key update of k, p skip locked),
  begun as (
    delete from keys.pending_overlap as p
     using due
     where p.tenant_id = due.tenant_id
       and p.key_id = due.id),
  shortened as (
    update keys.api_key as k
       set expires_at = due.ends_at
      from due
     where k.tenant_id = due.tenant_id
       and k.id = due.id
       and k.expires_at > due.ends_at
    returning k.tenant_id, k.id, k.hash, due.expires_at as ended_at, due.ends_at, due.successor_id, due.overlap),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, detail)
    select v.tenant_id, v.id, 'updated',
           pg_catalog.jsonb_build_object(
             'reason', 'The new key was first used', 'rotated_to', v.successor_id, 'overlap', v.overlap,
             'changes', pg_catalog.jsonb_build_object('expires_at', pg_catalog.jsonb_build_object(
               'from', pg_catalog.to_char(v.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'to', pg_catalog.to_char(v.ends_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))))
      from shortened as v)
  select v.tenant_id, v.id, v.hash from shortened as v
$$;
call tenancy.give_function('keys.start_overlaps(integer)', 'postern_keys_definer', array['postern_keys']);
