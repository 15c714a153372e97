-- A run decides about access only as its plan showed.
-- suits the running release: without it, an import changes no authority

alter table universe.import add column is_authoritative boolean;
comment on column universe.import.is_authoritative is 'Whether the plan counts people who lose access. Null: not planned, or a rollback.';
