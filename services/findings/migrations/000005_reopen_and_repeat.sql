-- A finding repeats one that has ended; an acceptance of a risk ends by itself, and nobody but the service writes of it.

-- Serves the search for acceptances that have run out.
create index finding_by_accepted_until on findings.finding (tenant_id, accepted_until) where status = 'risk_accepted';

alter table findings.tracker_log
  drop constraint tracker_log_actor_type_known,
  add constraint tracker_log_actor_type_known check (
    actor_type in ('api_key', 'user', 'operator', 'connector', 'system')
  );

-- INVARIANT: what is named as repeated is closed or accepted at that moment, whoever writes. That it is there, and the
-- tenant's own, is kept by finding_repeat_of_fk.
create function findings.guard_repeat() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  if exists (
    select from findings.finding f
    where f.tenant_id = new.tenant_id and f.id = new.repeat_of_id and f.status not in ('closed', 'risk_accepted')
  ) then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'finding', constraint = 'finding_repeats_what_has_ended',
      message = 'what a finding repeats is closed';
  end if;
  return new;
end
$$;

create trigger finding_repeat_guard before insert or update of repeat_of_id on findings.finding
  for each row when (new.repeat_of_id is not null) execute function findings.guard_repeat();
