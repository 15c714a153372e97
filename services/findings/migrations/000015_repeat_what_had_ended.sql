-- What a finding repeats had ended when that was written. It may open again later, and the finding that repeats it goes on as
-- any other: the trigger asked at each update that names the column, changed or not, and so stopped all of them.
-- suits the running release: what is refused now was refused before.
-- contract: the trigger stays for rows that are new, and one that asks where the value has changed stands beside it.
drop trigger finding_repeat_guard on findings.finding;

create trigger finding_repeat_guard before insert on findings.finding
  for each row when (new.repeat_of_id is not null) execute function findings.guard_repeat();

create trigger finding_repeat_change_guard before update of repeat_of_id on findings.finding
  for each row when (new.repeat_of_id is not null and new.repeat_of_id is distinct from old.repeat_of_id)
  execute function findings.guard_repeat();
