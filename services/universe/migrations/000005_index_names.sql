-- Filters find people by name in any case.
-- suits the running release: PostgreSQL fills the column, and no release writes to it
-- holds up writes: a tenant has some thousand people, and the index over a hundred thousand takes a second
-- holds up readers: a tenant has some thousand people, and rewriting a hundred thousand takes a second

-- A column, because lower() is not leakproof: under row-level security, no index on an expression with it is used.
alter table universe.person add column folded_name text not null generated always as (lower(name)) stored;
comment on column universe.person.folded_name is 'The name in lower case.';
create index person_by_folded_name on universe.person (tenant_id, folded_name);
