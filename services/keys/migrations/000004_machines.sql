-- Service accounts of a provider administer keys, and are named as machines.
-- suits the running release: it writes only users and operators
-- holds up writes: a tenant has some thousand keys, and the check of a hundred thousand takes a second
-- holds up readers: a tenant has some thousand keys, and the check of a hundred thousand takes a second

alter table keys.api_key
  drop constraint api_key_created_by_type_known,
  drop constraint api_key_revoked_by_type_known,
  add constraint api_key_created_by_type_known check (created_by_type in ('user', 'machine', 'operator')),
  add constraint api_key_revoked_by_type_known check (revoked_by_type in ('user', 'machine', 'operator'));
