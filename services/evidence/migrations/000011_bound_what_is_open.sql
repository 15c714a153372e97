-- Resumable uploads that are open count towards what their tenant may keep, and a file is attached to a bounded number of test
-- procedures.
-- holds up writes: the rows of evidence.upload are those of the last day, and those of uploads that are complete are left out
-- suits the running release: 1.0.0-beta.1 answers 500, and attaches nothing, for the 1,001st attachment of one file alone, while both run

-- Serves the sum of what was promised room.
create index upload_open on evidence.upload (tenant_id, expires_at) include (length, id) where receipt_jws is null;

-- INVARIANT: a file is attached to at most 1,000 test procedures (maxAttachments of the contracts).
create function evidence.guard_attachments() returns trigger
language plpgsql set search_path = ''
as $$
declare
  touched record;
begin
  for touched in select distinct a.tenant_id, a.file_id from added a order by a.file_id loop
    -- One at a time for a file: what others have attached meanwhile is seen by the count.
    perform pg_advisory_xact_lock(
      hashtextextended('evidence.attachment:' || touched.tenant_id || ':' || touched.file_id, 0));
    -- attachment_once
    if (
      select count(*) from evidence.attachment a
      where a.tenant_id = touched.tenant_id and a.file_id = touched.file_id
    ) > 1000 then
      raise exception using
        errcode = 'check_violation', schema = 'evidence', table = 'attachment', constraint = 'attachment_at_most',
        message = 'a file is attached to at most 1000 test procedures';
    end if;
  end loop;
  return null;
end
$$;

create trigger attachment_at_most after insert on evidence.attachment
  referencing new table as added
  for each statement execute function evidence.guard_attachments();
