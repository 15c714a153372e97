-- The audit trail of a key shows refusals for a missing scope, counted by address.
-- contract: adds one reason and one type of event; the release before writes only those that it knows.
-- suits the running release: both checks accept everything that they accepted before.

alter table keys.api_key_denial
  drop constraint api_key_denial_reason_known,
  add constraint api_key_denial_reason_known check (reason in ('expired', 'revoked', 'address', 'scope')) not valid;

alter table keys.api_key_event
  drop constraint api_key_event_type_known,
  add constraint api_key_event_type_known check (type in (
    'created', 'rotated', 'updated', 'revoked', 'denied_expired', 'denied_revoked', 'denied_address', 'denied_scope',
    'used_from_new_address')) not valid;
