-- Tenants that are suspended already: from now on each change is noted as it is made.

-- The owner sees and writes rows only while row security is not forced.
alter table keys.tenant no force row level security;
alter table tenancy.suspended_tenant no force row level security;
insert into tenancy.suspended_tenant (tenant_id)
select t.tenant_id from keys.tenant t where t.status = 'suspended'
on conflict do nothing;
alter table tenancy.suspended_tenant force row level security;
alter table keys.tenant force row level security;
