-- Uploads of one tenant no longer wait for each other's commits: numbers are lent, and room is reserved before an upload is recorded.
-- suits the running release: it counts numbers and usage in the two tables as before, and both stay true.

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
comment on table evidence.reference_counter is
  'The last number of EV-<year>-<number> that is used or free, one row a tenant and year.';

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
