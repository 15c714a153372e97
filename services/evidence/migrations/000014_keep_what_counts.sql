-- A version in quarantine is evidence of nothing, and replaces nothing: the older one counts, and is judged, until there is one
-- that is accepted or released.
-- suits the running release: it shows the older version as superseded still, and is refused nothing that it was allowed.

-- Whether a later version of the file counts. Versions are a line, which is followed while they are in quarantine.
-- Served by file_version_unique and file_decision_pk.
create function evidence.is_superseded(tenant uuid, file_id uuid) returns boolean
language sql
stable
set search_path = ''
as $$
  with recursive line (id, counts) as (
    select is_superseded.file_id, false
    union all
    select newer.id, newer.scan <> 'infected' or exists (
      select from evidence.file_decision d
      where d.tenant_id = newer.tenant_id and d.file_id = newer.id and d.kind = 'released'
    )
    from line
    join evidence.file newer on newer.tenant_id = tenant and newer.version_of = line.id
    where not line.counts
  )
  select exists (select from line where line.counts)
$$;

revoke all on function evidence.is_superseded(uuid, uuid) from public;
grant execute on function evidence.is_superseded(uuid, uuid) to postern_evidence;

create or replace function evidence.guard_verdict() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- file_decision_guard, whose name comes first, has taken the lock of the file's decisions.
  if exists (
    select from evidence.file_decision d
    where d.tenant_id = new.tenant_id and d.file_id = new.file_id and d.kind = 'purged'
  ) or evidence.is_superseded(new.tenant_id, new.file_id)
  or exists (
    select from evidence.file f
    where f.tenant_id = new.tenant_id and f.id = new.file_id and f.scan = 'infected'
      and not exists (
        select from evidence.file_decision d
        where d.tenant_id = f.tenant_id and d.file_id = f.id and d.kind = 'released'
      )
  ) then
    raise exception 'only what is accepted or released can be judged' using errcode = '23514', constraint = 'file_decision_of_accepted';
  end if;
  return new;
end
$$;
