-- What senders say of their files, revisions, attachments to test procedures, and how much each tenant keeps.

alter table evidence.file
  add column evidence_date date,
  add column period_start date,
  add column period_end date,
  add column source_system text,
  add column collection_method text,
  add column collected_by jsonb,
  add column collected_at timestamptz,
  add column query_text text,
  add column classification text not null default 'confidential',
  add column description text,
  add column version_of uuid,
  add column revision integer not null default 1,
  add constraint file_period_order check (period_start <= period_end),
  add constraint file_source_system_length check (char_length(source_system) between 1 and 255),
  add constraint file_collection_method_known check (
    collection_method in ('manual', 'api_export', 'screenshot', 'query', 'report', 'log')
  ),
  add constraint file_collected_by_is_object check (jsonb_typeof(collected_by) = 'object'),
  add constraint file_query_text_length check (char_length(query_text) between 1 and 10000),
  add constraint file_classification_known check (
    classification in ('public', 'internal', 'confidential', 'restricted')
  ),
  add constraint file_description_length check (char_length(description) between 1 and 5000),
  add constraint file_version_fk foreign key (tenant_id, version_of) references evidence.file (tenant_id, id),
  -- One successor at most: the versions of a file are a line, never a tree.
  add constraint file_version_unique unique (tenant_id, version_of),
  add constraint file_revision_counts check ((version_of is null and revision = 1) or (version_of is not null and revision > 1));
comment on column evidence.file.evidence_date is 'The day that the evidence speaks of, as the sender says.';
comment on column evidence.file.version_of is 'The file that this one replaces.';

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

create table evidence.tenant_usage (
  tenant_id uuid not null,
  bytes bigint not null,
  files bigint not null,
  constraint tenant_usage_pk primary key (tenant_id),
  constraint tenant_usage_positive check (bytes > 0 and files > 0)
);
comment on table evidence.tenant_usage is
  'What a tenant keeps, every file counted: were shared bytes counted once, a quota would tell a sender what others have sent.';

create trigger attachment_never_changes before update or delete on evidence.attachment
  for each row execute function tenancy.refuse_change();
create trigger attachment_is_never_emptied before truncate on evidence.attachment
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('evidence.attachment', 'postern_evidence', array['select', 'insert']);
call tenancy.protect_table('evidence.tenant_usage', 'postern_evidence', array['select', 'insert', 'update']);
