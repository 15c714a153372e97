-- What a service needs to answer a repeated request as it did the first time (Idempotency-Key).

-- Makes <schema>.idempotency_record for a service and opens it to the service's role. src/idempotency.ts works with it.
create procedure tenancy.create_idempotency_table(schema_name pg_catalog.name, runtime pg_catalog.name)
language plpgsql
set search_path = ''
as $$
declare
  record_table constant pg_catalog.text := pg_catalog.format('%I.idempotency_record', schema_name);
begin
  execute pg_catalog.format($ddl$
    create table %s (
      tenant_id uuid not null,
      slot bytea not null,
      fingerprint bytea not null,
      claim_id uuid not null,
      claimed_at timestamptz not null default now(),
      answer text,
      constraint idempotency_record_pk primary key (tenant_id, slot),
      constraint idempotency_record_slot_is_hash check (octet_length(slot) = 32),
      constraint idempotency_record_fingerprint_is_hash check (octet_length(fingerprint) = 32)
    )$ddl$, record_table);
  execute pg_catalog.format('comment on table %s is %L', record_table,
    'Requests with an Idempotency-Key, kept for a day. Without an answer: under way, or its process has died.');
  execute pg_catalog.format('comment on column %s.slot is %L', record_table,
    'SHA-256 over principal, route and key: what a client has written is not kept.');
  execute pg_catalog.format('comment on column %s.fingerprint is %L', record_table,
    'SHA-256 over what the request said: another one under the same key is told from a repetition.');
  execute pg_catalog.format('comment on column %s.claim_id is %L', record_table,
    'Who may write the answer. It changes when the request is taken over.');
  -- Serves the removal of what is older than a day.
  execute pg_catalog.format(
    'create index idempotency_record_by_claimed_at on %s (tenant_id, claimed_at)', record_table);
  call tenancy.protect_table(
    record_table::pg_catalog.regclass, runtime, array['select', 'insert', 'update', 'delete']);
end
$$;
