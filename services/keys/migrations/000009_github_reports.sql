-- Reports that GitHub's secret scanning has signed, each of which is accepted once.

create table keys.github_report (
  digest bytea not null,
  received_at timestamptz not null default clock_timestamp(),
  constraint github_report_pk primary key (digest),
  constraint github_report_digest_length check (octet_length(digest) = 32)
);
comment on column keys.github_report.digest is 'SHA-256 of the body.';

grant select, insert, delete on keys.github_report to postern_keys_definer;

-- Returns whether the report is new. Forgets those of more than 400 days ago: GitHub has replaced its keys by then.
create function keys.record_github_report(of_body bytea) returns boolean
language sql
security definer
set search_path = ''
as $$
  with old as (
    delete from keys.github_report as r
     where r.received_at < pg_catalog.clock_timestamp() - interval '400 days'),
  made as (
    insert into keys.github_report (digest) values (of_body) on conflict do nothing returning 1)
  select exists (select from made)
$$;
call tenancy.give_function('keys.record_github_report(bytea)', 'postern_keys_definer', array['postern_keys']);
