-- What a resumable upload was begun with, which its sender is told again (tus 1.0, Upload-Metadata).
-- suits the running release: it inserts rows without it, and reads none of it.

alter table evidence.upload
  add column metadata text constraint upload_metadata_length check (char_length(metadata) <= 4096);
