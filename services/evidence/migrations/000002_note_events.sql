-- Receipts and quarantines are events of webhooks.
-- suits the running release: it writes the same custody events.

create trigger notes_received after insert on evidence.custody_event for each row
  when (new.kind = 'received') execute function tenancy.note_event('file_id', 'evidence.uploaded');
create trigger notes_quarantined after insert on evidence.custody_event for each row
  when (new.kind = 'quarantined') execute function tenancy.note_event('file_id', 'evidence.quarantined');
