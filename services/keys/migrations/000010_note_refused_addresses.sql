-- A key that is limited to certain networks and is tried from elsewhere has most likely been stolen: that is in its trail too.
-- contract: one kind of refusal and of event more; the release before writes those that it knows.
-- suits the running release: what both allowed they allow, and one word more.

alter table keys.api_key_denial
  drop constraint api_key_denial_reason_known,
  add constraint api_key_denial_reason_known check (reason in ('expired', 'revoked', 'address')) not valid;

alter table keys.api_key_event
  drop constraint api_key_event_type_known,
  add constraint api_key_event_type_known check (type in (
    'created', 'rotated', 'updated', 'revoked', 'denied_expired', 'denied_revoked', 'denied_address',
    'used_from_new_address')) not valid;
