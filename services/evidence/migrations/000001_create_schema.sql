-- Evidence files, their custody and the counter behind their references.
-- The bytes are in the blob directory; a row here says that they are there, whole, and whose they are.

create schema evidence;
-- For the two functions of the sweep at the end.
grant usage on schema evidence to postern_evidence_definer;

create table evidence.reference_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number bigint not null,
  constraint reference_counter_pk primary key (tenant_id, year),
  constraint reference_counter_positive check (last_number > 0)
);
comment on table evidence.reference_counter is
  'The last number of EV-<year>-<number> that is used or free, one row a tenant and year.';

call tenancy.protect_table('evidence.reference_counter', 'postern_evidence', array['select', 'insert', 'update']);

create table evidence.file (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  reference text not null,
  file_name text not null,
  content_type text not null,
  detected_content_type text,
  size_bytes bigint not null,
  sha256 text not null,
  test_procedures text[] not null,
  scan text not null,
  received_at timestamptz not null,
  receipt_jws text not null,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  evidence_date date,
  period_start date,
  period_end date,
  source_system text,
  collection_method text,
  collected_by jsonb,
  collected_at timestamptz,
  query_text text,
  classification text not null default 'confidential',
  description text,
  version_of uuid,
  revision integer not null default 1,
  malware text,
  retention_until date not null,
  constraint file_pk primary key (tenant_id, id),
  constraint file_reference_unique unique (tenant_id, reference),
  constraint file_reference_form check (reference ~ '^EV-[0-9]{4}-[0-9]{6,}$'),
  constraint file_name_length check (char_length(file_name) between 1 and 255),
  constraint file_content_type_length check (char_length(content_type) between 1 and 255),
  constraint file_size_positive check (size_bytes > 0),
  constraint file_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
  constraint file_test_procedures_count check (cardinality(test_procedures) <= 50),
  constraint file_scan_known check (scan in ('not_configured', 'clean', 'infected', 'limits_exceeded')),
  constraint file_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector')),
  constraint file_period_order check (period_start <= period_end),
  constraint file_source_system_length check (char_length(source_system) between 1 and 255),
  constraint file_collection_method_known check (
    collection_method in ('manual', 'api_export', 'screenshot', 'query', 'report', 'log')
  ),
  constraint file_collected_by_is_object check (jsonb_typeof(collected_by) = 'object'),
  constraint file_query_text_length check (char_length(query_text) between 1 and 10000),
  constraint file_classification_known check (
    classification in ('public', 'internal', 'confidential', 'restricted')
  ),
  constraint file_description_length check (char_length(description) between 1 and 5000),
  constraint file_version_fk foreign key (tenant_id, version_of) references evidence.file (tenant_id, id),
  -- One successor at most: the versions of a file are a line, never a tree.
  constraint file_version_unique unique (tenant_id, version_of),
  constraint file_revision_counts check ((version_of is null and revision = 1) or (version_of is not null and revision > 1)),
  constraint file_malware_length check (char_length(malware) between 1 and 200),
  constraint file_malware_of_infected check ((scan = 'infected') = (malware is not null)),
  constraint file_retention_follows_receipt check (retention_until > (received_at at time zone 'UTC')::date)
);
comment on table evidence.file is 'One upload. Several files of a tenant may share the same bytes: sha256 names the blob.';
comment on column evidence.file.evidence_date is 'The day that the evidence speaks of, as the sender says.';
comment on column evidence.file.version_of is 'The file that this one replaces.';
comment on column evidence.file.scan is 'What the scanner said when the file came. An infected file is in quarantine: it is evidence of nothing.';
comment on column evidence.file.malware is 'What the scanner has found, by its name.';
comment on column evidence.file.retention_until is 'The file is kept until this day at least.';
-- Serves the question whether any file still needs a blob.
create index file_sha256 on evidence.file (tenant_id, sha256);
-- Serves the list of what is in quarantine.
create index file_infected on evidence.file (tenant_id, id) where scan = 'infected';

-- A file is what its receipt says: the service may add files and custody events, never change or delete them, and the
-- triggers hold the owner to it as well.
create trigger file_never_changes before update or delete on evidence.file
  for each row execute function tenancy.refuse_change();
create trigger file_is_never_emptied before truncate on evidence.file
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('evidence.file', 'postern_evidence', array['select', 'insert']);
grant select (tenant_id, id, sha256) on table evidence.file to postern_evidence_definer;
create policy postern_evidence_definer_select on evidence.file for select to postern_evidence_definer using (true);
call tenancy.restrict_to_tenant('evidence.file');

create table evidence.custody_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  file_id uuid,
  kind text not null,
  occurred_at timestamptz not null default clock_timestamp(),
  actor_type text not null,
  actor_id text not null,
  actor_label text not null,
  request_id text not null,
  -- An upload in pieces is in custody before it is a file, and some never become one.
  upload_id uuid,
  detail jsonb not null default '{}',
  constraint custody_event_pk primary key (tenant_id, id),
  constraint custody_event_file_fk foreign key (tenant_id, file_id) references evidence.file (tenant_id, id),
  constraint custody_event_kind_known check (
    kind in (
      'upload_begun', 'upload_given_up',
      'received', 'hashed', 'scanned', 'quarantined', 'attached', 'released', 'reviewed', 'rejected',
      'viewed', 'legal_hold_set', 'legal_hold_lifted', 'purged'
    )
  ),
  constraint custody_event_actor_type_known check (actor_type in ('api_key', 'user', 'operator', 'connector')),
  constraint custody_event_has_subject check (
    case
      when kind in ('upload_begun', 'upload_given_up') then file_id is null and upload_id is not null
      else file_id is not null
    end
  ),
  constraint custody_event_detail_is_object check (jsonb_typeof(detail) = 'object')
);
comment on table evidence.custody_event is 'Who had a file in hand, and when. Append-only: no role may update or delete.';
comment on column evidence.custody_event.file_id is 'Null for an upload that is not a file yet, or never became one.';
comment on column evidence.custody_event.upload_id is 'The resumable upload that it is about, or by which the file came. Its row goes; this stays.';
create index custody_event_file on evidence.custody_event (tenant_id, file_id, id);
-- Serves the question what became of a resumable upload.
create index custody_event_upload on evidence.custody_event (tenant_id, upload_id, id) where upload_id is not null;

create trigger custody_event_never_changes before update or delete on evidence.custody_event
  for each row execute function tenancy.refuse_change();
create trigger custody_event_is_never_emptied before truncate on evidence.custody_event
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('evidence.custody_event', 'postern_evidence', array['select', 'insert']);

create table evidence.attachment (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  file_id uuid not null,
  test_procedure text not null,
  note text,
  attached_at timestamptz not null,
  attached_by_type text not null,
  attached_by_id text not null,
  attached_by_label text not null,
  constraint attachment_pk primary key (tenant_id, id),
  constraint attachment_once unique (tenant_id, file_id, test_procedure),
  constraint attachment_file_fk foreign key (tenant_id, file_id) references evidence.file (tenant_id, id),
  constraint attachment_test_procedure_form check (
    test_procedure ~ '^(ref:[A-Z]{1,4}-[0-9A-Z.-]{1,40}|ext:.{1,255}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$'
  ),
  constraint attachment_note_length check (char_length(note) between 1 and 2000),
  constraint attachment_attached_by_type_known check (attached_by_type in ('api_key', 'user', 'operator', 'connector'))
);
comment on table evidence.attachment is 'For which test procedures a file is evidence. Append-only.';
-- Serves the question what evidence a test procedure has.
create index attachment_test_procedure on evidence.attachment (tenant_id, test_procedure, file_id);

create trigger attachment_never_changes before update or delete on evidence.attachment
  for each row execute function tenancy.refuse_change();
create trigger attachment_is_never_emptied before truncate on evidence.attachment
  for each statement execute function tenancy.refuse_change();

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

call tenancy.protect_table('evidence.attachment', 'postern_evidence', array['select', 'insert']);
call tenancy.count_links('evidence.attachment', 'evidence', 'test_procedure');

create table evidence.tenant_usage (
  tenant_id uuid not null,
  bytes bigint not null,
  files bigint not null,
  constraint tenant_usage_pk primary key (tenant_id),
  constraint tenant_usage_not_negative check (bytes >= 0 and files >= 0)
);
comment on table evidence.tenant_usage is
  'What a tenant keeps, every file counted: were shared bytes counted once, a quota would tell a sender what others have sent.';

call tenancy.protect_table('evidence.tenant_usage', 'postern_evidence', array['select', 'insert', 'update']);

create table evidence.upload (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  length bigint not null,
  file_name text not null,
  content_type text not null,
  details jsonb not null,
  created_by_type text not null,
  created_by_id text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  receipt_jws text,
  turn integer not null default 0,
  arrived bigint not null default 0,
  metadata text constraint upload_metadata_length check (char_length(metadata) <= 4096),
  constraint upload_pk primary key (tenant_id, id),
  constraint upload_length_positive check (length > 0),
  constraint upload_file_name_length check (char_length(file_name) between 1 and 255),
  constraint upload_content_type_length check (char_length(content_type) between 1 and 255),
  constraint upload_details_is_object check (jsonb_typeof(details) = 'object'),
  constraint upload_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector')),
  constraint upload_turn_not_negative check (turn >= 0),
  constraint upload_arrived_in_length check (arrived between 0 and length)
);
comment on table evidence.upload is
  'A resumable upload, for as long as its sender may ask about it; receipt_jws once it is recorded as a file.';
comment on column evidence.upload.turn is 'The turn that was given out last.';
comment on column evidence.upload.arrived is 'Bytes that count: the lengths of its pieces.';
-- Serves the removal of what has expired.
create index upload_expires_at on evidence.upload (tenant_id, expires_at);
-- Serves the sum of what was promised room.
create index upload_open on evidence.upload (tenant_id, expires_at) include (length, id) where receipt_jws is null;

call tenancy.protect_table('evidence.upload', 'postern_evidence', array['select', 'insert', 'update', 'delete']);
grant select (tenant_id, id, receipt_jws) on table evidence.upload to postern_evidence_definer;
create policy postern_evidence_definer_select on evidence.upload for select to postern_evidence_definer using (true);
grant select (expires_at) on table evidence.upload to postern_evidence_definer;
call tenancy.restrict_to_tenant('evidence.upload');

create table evidence.upload_piece (
  tenant_id uuid not null,
  upload_id uuid not null,
  turn integer not null,
  is_checked boolean not null,
  length bigint,
  constraint upload_piece_pk primary key (tenant_id, upload_id, turn),
  constraint upload_piece_upload_fk foreign key (tenant_id, upload_id)
    references evidence.upload (tenant_id, id) on delete cascade,
  constraint upload_piece_turn_positive check (turn > 0),
  constraint upload_piece_length_not_negative check (length >= 0)
);
comment on table evidence.upload_piece is
  'What was written in one turn. length is null for as long as the turn lasts; is_checked says that it counts whole or not at all.';
-- One turn at a time, kept by the database.
create unique index upload_piece_one_open on evidence.upload_piece (tenant_id, upload_id) where length is null;

call tenancy.protect_table('evidence.upload_piece', 'postern_evidence', array['select', 'insert', 'update']);

create table evidence.file_decision (
  tenant_id uuid not null,
  file_id uuid not null,
  kind text not null,
  reason text not null,
  decided_at timestamptz(3) not null default clock_timestamp(),
  decided_by_type text not null,
  decided_by_id text not null,
  decided_by_label text not null,
  constraint file_decision_pk primary key (tenant_id, file_id, kind),
  constraint file_decision_file_fk foreign key (tenant_id, file_id) references evidence.file (tenant_id, id),
  constraint file_decision_kind_known check (kind in ('released', 'reviewed', 'rejected', 'purged')),
  constraint file_decision_reason_length check (char_length(reason) between 1 and 2000),
  constraint file_decision_by_person check (decided_by_type in ('user', 'operator'))
);
comment on table evidence.file_decision is 'What a person has decided about a file. Append-only: no role may update or delete.';
-- A verdict is one of the two, and stands.
create unique index file_decision_one_verdict on evidence.file_decision (tenant_id, file_id) where kind in ('reviewed', 'rejected');

create function evidence.guard_file_decision() returns trigger
language plpgsql set search_path = ''
as $$
declare
  found_scan text;
  kept_until date;
begin
  perform pg_advisory_xact_lock(hashtextextended('evidence.decision:' || new.tenant_id || ':' || new.file_id, 0));
  select f.scan, f.retention_until
  into found_scan, kept_until
  from evidence.file f
  where f.tenant_id = new.tenant_id and f.id = new.file_id;
  if new.kind = 'released' and found_scan is distinct from 'infected' then
    raise exception 'only what is in quarantine can be released' using errcode = '23514', constraint = 'file_decision_of_quarantined';
  end if;
  if new.kind = 'purged' and ((now() at time zone 'UTC')::date > kept_until) is not true then
    raise exception 'the file is still to be kept' using errcode = '23514', constraint = 'file_decision_after_retention';
  end if;
  if new.kind = 'purged' and (
    select h.kind
    from evidence.legal_hold h
    where h.tenant_id = new.tenant_id and h.file_id = new.file_id
    order by h.number desc
    limit 1
  ) = 'set' then
    raise exception 'the file is under a legal hold' using errcode = '23514', constraint = 'file_decision_without_hold';
  end if;
  return new;
end
$$;

create trigger file_decision_guard before insert on evidence.file_decision
  for each row execute function evidence.guard_file_decision();
create trigger file_decision_never_changes before update or delete on evidence.file_decision
  for each row execute function tenancy.refuse_change();
create trigger file_decision_is_never_emptied before truncate on evidence.file_decision
  for each statement execute function tenancy.refuse_change();

create function evidence.guard_verdict() returns trigger
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

create trigger file_decision_guard_verdict before insert on evidence.file_decision
  for each row when (new.kind in ('reviewed', 'rejected')) execute function evidence.guard_verdict();

call tenancy.protect_table('evidence.file_decision', 'postern_evidence', array['select', 'insert']);
grant select (tenant_id, file_id, kind) on table evidence.file_decision to postern_evidence_definer;
create policy postern_evidence_definer_select on evidence.file_decision for select to postern_evidence_definer using (true);
call tenancy.restrict_to_tenant('evidence.file_decision');

create table evidence.policy (
  tenant_id uuid not null,
  retention_years integer not null,
  version integer not null default 1,
  changed_at timestamptz(3) not null default clock_timestamp(),
  changed_by_type text not null,
  changed_by_id text not null,
  changed_by_label text not null,
  constraint policy_pk primary key (tenant_id),
  constraint policy_retention_years_range check (retention_years between 1 and 100),
  constraint policy_version_positive check (version > 0),
  constraint policy_by_person check (changed_by_type in ('user', 'operator'))
);
comment on table evidence.policy is 'How long a tenant keeps evidence, from the day of receipt. Without a row: seven years.';

call tenancy.protect_table('evidence.policy', 'postern_evidence', array['select', 'insert', 'update']);

create table evidence.legal_hold (
  tenant_id uuid not null,
  file_id uuid not null,
  number integer not null,
  kind text not null,
  reason text not null,
  decided_at timestamptz(3) not null default clock_timestamp(),
  decided_by_type text not null,
  decided_by_id text not null,
  decided_by_label text not null,
  constraint legal_hold_pk primary key (tenant_id, file_id, number),
  constraint legal_hold_file_fk foreign key (tenant_id, file_id) references evidence.file (tenant_id, id),
  constraint legal_hold_number_positive check (number > 0),
  constraint legal_hold_in_turn check (kind = case number % 2 when 1 then 'set' else 'lifted' end),
  constraint legal_hold_reason_length check (char_length(reason) between 1 and 2000),
  constraint legal_hold_by_person check (decided_by_type in ('user', 'operator'))
);
comment on table evidence.legal_hold is 'Legal holds on files, set and lifted in turn. Append-only: no role may update or delete.';

create function evidence.guard_legal_hold() returns trigger
language plpgsql set search_path = ''
as $$
begin
  -- One decision about a file at a time: what is purged or held meanwhile is seen by the statements below.
  perform pg_advisory_xact_lock(hashtextextended('evidence.decision:' || new.tenant_id || ':' || new.file_id, 0));
  if new.number <> 1 + (
    select coalesce(max(h.number), 0)
    from evidence.legal_hold h
    where h.tenant_id = new.tenant_id and h.file_id = new.file_id
  ) then
    raise exception 'holds are set and lifted in turn' using errcode = '23514', constraint = 'legal_hold_in_turn';
  end if;
  if new.kind = 'set' and exists (
    select from evidence.file_decision d
    where d.tenant_id = new.tenant_id and d.file_id = new.file_id and d.kind = 'purged'
  ) then
    raise exception 'what is purged cannot be held' using errcode = '23514', constraint = 'legal_hold_of_kept';
  end if;
  return new;
end
$$;

create trigger legal_hold_guard before insert on evidence.legal_hold
  for each row execute function evidence.guard_legal_hold();
create trigger legal_hold_never_changes before update or delete on evidence.legal_hold
  for each row execute function tenancy.refuse_change();
create trigger legal_hold_is_never_emptied before truncate on evidence.legal_hold
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('evidence.legal_hold', 'postern_evidence', array['select', 'insert']);

-- Numbers of references that are free. An upload takes the lowest one that no other upload holds and gives it back where it
-- fails. So no upload holds a row of the tenant that others wait for.
create table evidence.free_number (
  tenant_id uuid not null,
  series text not null,
  year integer not null,
  number bigint not null,
  constraint free_number_pk primary key (tenant_id, series, year, number),
  constraint free_number_series_known check (series = 'evidence'),
  constraint free_number_positive check (number > 0)
);
comment on table evidence.free_number is
  'Numbers up to that of the counter that no file has yet. They are added before an upload is recorded.';

call tenancy.protect_table('evidence.free_number', 'postern_evidence', array['select', 'insert', 'update', 'delete']);

-- What tenant_usage counts already of an upload that is being recorded. The row goes with the commit of the upload. One that has
-- expired is taken off tenant_usage by whoever reserves next.
create table evidence.usage_reservation (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  bytes bigint not null,
  files integer not null,
  -- The resumable upload that is completed: what it was promised is counted here meanwhile.
  upload_id uuid,
  expires_at timestamptz not null,
  constraint usage_reservation_pk primary key (tenant_id, id),
  constraint usage_reservation_not_negative check (bytes >= 0 and files >= 0)
);
comment on table evidence.usage_reservation is
  'Parts of tenant_usage that count for an upload under way, and no longer once they have expired.';

call tenancy.protect_table('evidence.usage_reservation', 'postern_evidence', array['select', 'insert', 'update', 'delete']);

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
call tenancy.give_function('evidence.blob_is_recorded(uuid, text)', 'postern_evidence_definer', array['postern_evidence']);

-- Whether the pieces of a resumable upload may still become a file: one that is gone or has expired does not come again, and one
-- that is recorded has its bytes elsewhere. Served by upload_pk.
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
       and u.receipt_jws is null
       and u.expires_at > now())
$$;
call tenancy.give_function('evidence.upload_is_open(uuid, uuid)', 'postern_evidence_definer', array['postern_evidence']);

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

call tenancy.create_idempotency_table('evidence', 'postern_evidence');
