-- Columns of sources are normalized to NFC from now on, so the mappings that name them are too. Texts that came before stay as they are.
-- The owner sees rows only while row security is not forced.
alter table sync.connector no force row level security;
update sync.connector
set mapping = normalize(mapping::text, nfc)::jsonb
where mapping::text is not nfc normalized;
alter table sync.connector force row level security;
