-- Uploads that go on where they broke off (tus 1.0). How much has arrived is the size of the file on the disk.

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
  constraint upload_pk primary key (tenant_id, id),
  constraint upload_length_positive check (length > 0),
  constraint upload_file_name_length check (char_length(file_name) between 1 and 255),
  constraint upload_content_type_length check (char_length(content_type) between 1 and 255),
  constraint upload_details_is_object check (jsonb_typeof(details) = 'object'),
  constraint upload_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector'))
);
comment on table evidence.upload is
  'A resumable upload, for as long as its sender may ask about it; receipt_jws once it is recorded as a file.';

-- Serves the removal of what has expired.
create index upload_expires_at on evidence.upload (tenant_id, expires_at);

call tenancy.protect_table('evidence.upload', 'postern_evidence', array['select', 'insert', 'update', 'delete']);
