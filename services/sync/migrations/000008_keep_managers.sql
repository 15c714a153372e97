-- Whom a user names as the manager: the head of a unit is the one whom most of its active users name.

alter table sync.scim_user add column manager text;
-- The owner sees rows only while row security is not forced.
alter table sync.scim_user no force row level security;
update sync.scim_user
set manager = content #>> '{urn:ietf:params:scim:schemas:extension:enterprise:2.0:User,manager,value}';
alter table sync.scim_user force row level security;
comment on column sync.scim_user.manager is 'The id of another user, or the externalId, as the provider has sent it. Nobody may have it (yet).';
-- Serves the question which units somebody is the manager of.
create index scim_user_by_manager on sync.scim_user (tenant_id, manager) where deleted_at is null and active;
