-- A connector of people can be authoritative, and names of users match in all spellings.
-- suits the running release: it marks no connector as authoritative
-- holds up readers: the check of the new column passes over connectors, of which a tenant has few

alter table sync.connector
  add column authoritative boolean not null default false,
  add constraint connector_authoritative_brings_people check (not authoritative or dataset = 'people');
comment on column sync.connector.authoritative is 'Whether people whom it brings lose access when they become inactive.';

-- Their names have another hash now (tenancy.hash_name). The owner of a table is otherwise subject to its policies and would
-- find no row.
alter table sync.scim_user no force row level security;
alter table tenancy.directory_name no force row level security;
update sync.scim_user as u
   set active = u.active
 where u.user_name ~ '[^\u0001-\u007f]' or u.external_id ~ '[^\u0001-\u007f]' or u.content ->> 'emails' ~ '[^\u0001-\u007f]';
set constraints all immediate;
alter table tenancy.directory_name force row level security;
alter table sync.scim_user force row level security;
