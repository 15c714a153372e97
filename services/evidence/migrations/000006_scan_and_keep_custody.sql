-- Malware scans, quarantine, and custody from the first moment to the last, also of what never became a file.

alter table evidence.file
  add column malware text,
  drop constraint file_scan_known,
  add constraint file_scan_known check (scan in ('not_configured', 'clean', 'infected', 'limits_exceeded')),
  add constraint file_malware_length check (char_length(malware) between 1 and 200),
  add constraint file_malware_of_infected check ((scan = 'infected') = (malware is not null));
comment on column evidence.file.scan is 'What the scanner said when the file came. An infected file is in quarantine: it is evidence of nothing.';
comment on column evidence.file.malware is 'What the scanner has found, by its name.';

-- An upload in pieces is in custody before it is a file, and some never become one.
alter table evidence.custody_event
  alter column file_id drop not null,
  add column upload_id uuid,
  add column detail jsonb not null default '{}',
  drop constraint custody_event_kind_known,
  add constraint custody_event_kind_known check (
    kind in (
      'upload_begun', 'upload_given_up',
      'received', 'hashed', 'scanned', 'quarantined', 'attached',
      'viewed', 'exported', 'legal_hold_set', 'purged'
    )
  ),
  add constraint custody_event_has_subject check (
    case
      when kind in ('upload_begun', 'upload_given_up') then file_id is null and upload_id is not null
      else file_id is not null
    end
  ),
  add constraint custody_event_detail_is_object check (jsonb_typeof(detail) = 'object');
comment on column evidence.custody_event.file_id is 'Null for an upload that is not a file yet, or never became one.';
comment on column evidence.custody_event.upload_id is 'The resumable upload that it is about, or by which the file came. Its row goes; this stays.';

-- Serves the question what became of a resumable upload.
create index custody_event_upload on evidence.custody_event (tenant_id, upload_id, id) where upload_id is not null;
