-- How much evidence a test procedure has, for the universe to show. What named no id in former times is not counted.

-- The owner sees rows only while row security is not forced.
alter table evidence.attachment no force row level security;
alter table tenancy.link_count no force row level security;
insert into tenancy.link_count (tenant_id, kind, resource_id, links)
select a.tenant_id, 'evidence', a.test_procedure::uuid, count(*)
from evidence.attachment a
where a.test_procedure ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
group by a.tenant_id, a.test_procedure;
alter table tenancy.link_count force row level security;
alter table evidence.attachment force row level security;

call tenancy.count_links('evidence.attachment', 'evidence', 'test_procedure');
