-- The end of a tenant's log is signed with every write, so that a day that nobody comes after is signed when it ends.

create table findings.log_end (
  tenant_id uuid not null,
  position bigint not null,
  root text not null,
  day date not null,
  jws text not null,
  constraint log_end_pk primary key (tenant_id),
  constraint log_end_position_fk foreign key (tenant_id, position)
    references findings.tracker_log (tenant_id, position),
  constraint log_end_root_form check (root ~ '^[0-9a-f]{64}$')
);
comment on table findings.log_end is
  'The end of a tenant''s log as its last writer has signed it: the checkpoint of its day once the day is over. Only moves on.';

-- INVARIANT: who has signed an end leaves it to nobody who has seen less.
create function findings.guard_log_end() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  raise exception using
    errcode = 'check_violation', schema = 'findings', table = 'log_end', constraint = 'log_end_moves_on',
    message = 'the signed end of a log only moves on';
end
$$;

create trigger log_end_moves_on before update on findings.log_end
  for each row when (new.tenant_id <> old.tenant_id or new.position <= old.position or new.day < old.day)
  execute function findings.guard_log_end();
create trigger log_end_stays before delete on findings.log_end
  for each row execute function tenancy.refuse_change();
create trigger log_end_is_never_emptied before truncate on findings.log_end
  for each statement execute function tenancy.refuse_change();

call tenancy.protect_table('findings.log_end', 'postern_findings', array['select', 'insert', 'update']);
