-- What killed uploads have left goes with a sweep, also that of a tenant that never asks again. The sweep has no assertion: it
-- finds ids and hashes in the store, and asks of each whether a row still names it. Two functions answer that, with yes or no,
-- and nothing else of any tenant. Who asks knows the tenant and the hash, or the id, which is random.

-- What the functions are read with: no more than these columns, and no change.
grant usage on schema evidence to postern_evidence_definer;
grant select (tenant_id, id, sha256) on table evidence.file to postern_evidence_definer;
grant select (tenant_id, file_id, kind) on table evidence.file_decision to postern_evidence_definer;
grant select (tenant_id, id, receipt_jws) on table evidence.upload to postern_evidence_definer;
create policy postern_evidence_definer_select on evidence.file for select to postern_evidence_definer using (true);
create policy postern_evidence_definer_select on evidence.file_decision for select to postern_evidence_definer using (true);
create policy postern_evidence_definer_select on evidence.upload for select to postern_evidence_definer using (true);
call tenancy.restrict_to_tenant('evidence.file');
call tenancy.restrict_to_tenant('evidence.file_decision');
call tenancy.restrict_to_tenant('evidence.upload');

-- Whether a file of the tenant has these bytes, and is not purged. Under the lock of the blob the answer stays true. Served by
-- file_sha256 and file_decision_pk.
create function evidence.blob_is_recorded(tenant uuid, digest text) returns boolean
language sql
stable
security definer
set search_path = ''
as $$
  select exists (
    select from evidence.file as f
     where f.tenant_id = tenant
       and f.sha256 = digest
       and not exists (
         select from evidence.file_decision as d
          where d.tenant_id = f.tenant_id
            and d.file_id = f.id
            and d.kind = 'purged'))
$$;

-- Whether the pieces of a resumable upload may still become a file: an upload that is gone does not come again, and one that is
-- recorded has its bytes elsewhere. Served by upload_pk.
create function evidence.upload_is_open(tenant uuid, upload_id uuid) returns boolean
language sql
stable
security definer
set search_path = ''
as $$
  select exists (
    select from evidence.upload as u
     where u.tenant_id = tenant
       and u.id = upload_is_open.upload_id
       and u.receipt_jws is null)
$$;

call tenancy.give_function('evidence.blob_is_recorded(uuid, text)', 'postern_evidence_definer', array['postern_evidence']);
call tenancy.give_function('evidence.upload_is_open(uuid, uuid)', 'postern_evidence_definer', array['postern_evidence']);
