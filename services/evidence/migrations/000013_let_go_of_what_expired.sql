-- How long a resumable upload may take is in its row, and the setting may since have become shorter: pieces that seem old to
-- the setting may be those of an upload that has days yet. So the row is asked, and only what no row can be waiting for goes by age.
-- suits the running release: it asks this for its sweep alone, and has let nobody go on with what has expired.

grant select (expires_at) on table evidence.upload to postern_evidence_definer;

-- Only who owns a function replaces it, and he may create nothing otherwise.
grant create on schema evidence to postern_evidence_definer;
set local role postern_evidence_definer;

-- Whether the pieces of a resumable upload may still become a file: one that is gone or has expired does not come again, and one
-- that is recorded has its bytes elsewhere. Served by upload_pk.
create or replace function evidence.upload_is_open(tenant uuid, upload_id uuid) returns boolean
language sql
stable
security definer
set search_path = ''
as $$
  select exists (
    select from evidence.upload as u
     where u.tenant_id = tenant
       and u.id = upload_is_open.upload_id
       and u.receipt_jws is null
       and u.expires_at > now())
$$;

set local role postern_owner;
revoke create on schema evidence from postern_evidence_definer;
