-- Lists find changes that were committed late, by the start of their transaction.
-- suits the running release: it inserts no value of the new column, which has a default.
-- holds up writes: adding a column takes milliseconds; the stored rows are not rewritten.
-- holds up readers: the same.

-- The same time as in `updated_at` of the rows that the transaction has changed.
alter table tenancy.change_batch add column began_at timestamptz(3) not null default now();
call tenancy.protect_table('tenancy.change_head', 'postern_universe', array['select']);
call tenancy.protect_table('tenancy.change_batch', 'postern_universe', array['select']);
