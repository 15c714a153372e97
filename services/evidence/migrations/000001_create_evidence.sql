-- Evidence files, their custody and the counter behind their references.
-- The bytes are in the blob directory; a row here says that they are there, whole, and whose they are.

create schema evidence;

create table evidence.reference_counter (
  tenant_id uuid not null,
  year integer not null,
  last_number bigint not null,
  constraint reference_counter_pk primary key (tenant_id, year),
  constraint reference_counter_positive check (last_number > 0)
);
comment on table evidence.reference_counter is 'The last number given out in EV-<year>-<number>, one row a tenant and year.';

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
  constraint file_pk primary key (tenant_id, id),
  constraint file_reference_unique unique (tenant_id, reference),
  constraint file_reference_form check (reference ~ '^EV-[0-9]{4}-[0-9]{6,}$'),
  constraint file_name_length check (char_length(file_name) between 1 and 255),
  constraint file_content_type_length check (char_length(content_type) between 1 and 255),
  constraint file_size_positive check (size_bytes > 0),
  constraint file_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
  constraint file_test_procedures_count check (cardinality(test_procedures) <= 50),
  constraint file_scan_known check (scan in ('not_configured')),
  constraint file_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector'))
);
comment on table evidence.file is 'One upload. Several files of a tenant may share the same bytes: sha256 names the blob.';

-- Serves the question whether any file still needs a blob.
create index file_sha256 on evidence.file (tenant_id, sha256);

create table evidence.custody_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  file_id uuid not null,
  kind text not null,
  occurred_at timestamptz not null default clock_timestamp(),
  actor_type text not null,
  actor_id text not null,
  actor_label text not null,
  request_id text not null,
  constraint custody_event_pk primary key (tenant_id, id),
  constraint custody_event_file_fk foreign key (tenant_id, file_id) references evidence.file (tenant_id, id),
  constraint custody_event_kind_known check (
    kind in ('received', 'hashed', 'scanned', 'attached', 'viewed', 'exported', 'legal_hold_set', 'purged')
  ),
  constraint custody_event_actor_type_known check (actor_type in ('api_key', 'user', 'operator', 'connector'))
);
comment on table evidence.custody_event is 'Who had a file in hand, and when. Append-only: no role may update or delete.';

create index custody_event_file on evidence.custody_event (tenant_id, file_id, id);

-- A file is what its receipt says: the service may add files and custody events, never change or delete them, and the
-- triggers hold the owner to it as well.
create trigger file_never_changes before update or delete on evidence.file
  for each row execute function tenancy.refuse_change();
create trigger file_is_never_emptied before truncate on evidence.file
  for each statement execute function tenancy.refuse_change();
create trigger custody_event_never_changes before update or delete on evidence.custody_event
  for each row execute function tenancy.refuse_change();
create trigger custody_event_is_never_emptied before truncate on evidence.custody_event
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('evidence.reference_counter', 'postern_evidence', array['select', 'insert', 'update']);
call tenancy.protect_table('evidence.file', 'postern_evidence', array['select', 'insert']);
call tenancy.protect_table('evidence.custody_event', 'postern_evidence', array['select', 'insert']);
