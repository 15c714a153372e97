-- Sign-ins are a category of the audit feed.
-- suits the running release: it writes the categories that were known before

alter table tenancy.audit_event
  drop constraint audit_event_category_known,
  add constraint audit_event_category_known check (category in (
    'key', 'key_policy', 'evidence', 'connector', 'webhook', 'directory', 'tenant', 'sign_in')) not valid;

create trigger notes_sign_in after insert on tenancy.audit_event for each row
  when (new.category = 'sign_in') execute function tenancy.note_event('id', 'audit.sign_in');
