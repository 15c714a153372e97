-- Who had a file in hand is in the audit feed, in the transaction of the custody event.
-- suits the running release: it writes the same custody events.

create function evidence.audit_custody_event() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  insert into tenancy.audit_event (
    tenant_id, at, category, action, reason, actor_type, actor_id, actor_name, resource_type, resource_id, resource_name,
    request_id)
  select new.tenant_id, new.occurred_at, 'evidence',
         'evidence.' || case new.kind
           when 'received' then 'uploaded'
           when 'viewed' then 'downloaded'
           when 'legal_hold_set' then 'held'
           when 'legal_hold_lifted' then 'hold_lifted'
           else new.kind
         end,
         new.detail operator(pg_catalog.->>) 'reason', tenancy.audit_actor_type(new.actor_type), new.actor_id, new.actor_label,
         'evidence_file', f.id::pg_catalog.text, f.reference, new.request_id
    from evidence.file as f
   where f.tenant_id = new.tenant_id and f.id = new.file_id;
  return null;
end
$$;
-- Begun and given up uploads, hashes and scans say nothing of who saw a file.
create trigger audits_custody after insert on evidence.custody_event for each row
  when (new.kind in ('received', 'viewed', 'quarantined', 'attached', 'released', 'reviewed', 'rejected', 'legal_hold_set',
                     'legal_hold_lifted', 'purged'))
  execute function evidence.audit_custody_event();
