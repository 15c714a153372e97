-- Four eyes are two people of whom it can be seen that they are two. An owner who is known by an address passed with a name.

-- Whether two references certainly name two people: no id or address is the same, and one is in both; names decide where
-- neither is in both. Where nothing is in both, nobody can tell.
create function findings.is_another_person(a jsonb, b jsonb) returns boolean
  language sql
  immutable
  parallel safe
  set search_path = ''
as $$
  select case
    when a ->> 'person_id' = b ->> 'person_id' or lower(a ->> 'email') = lower(b ->> 'email') then false
    when a ->> 'person_id' <> b ->> 'person_id' or lower(a ->> 'email') <> lower(b ->> 'email') then true
    else coalesce(
      lower(regexp_replace(btrim(a ->> 'name'), '\s+', ' ', 'g'))
        <> lower(regexp_replace(btrim(b ->> 'name'), '\s+', ' ', 'g')),
      false)
  end
$$;
grant execute on function findings.is_another_person(jsonb, jsonb) to postern_findings;

-- INVARIANT: whoever validates is seen to be another than the owner, at the moment when either is named. No check of the
-- table: what was validated before stays as it is.
create function findings.guard_four_eyes() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  broken text;
begin
  case tg_table_name
    when 'finding' then
      if (new.owner, new.validated_by) is distinct from (old.owner, old.validated_by)
        and not findings.is_another_person(new.owner, new.validated_by)
      then
        broken := case when new.validated_by is distinct from old.validated_by
          then 'finding_validator_is_another' else 'finding_owner_is_another' end;
      end if;
    when 'action_plan' then
      if (new.owner, new.verified_by) is distinct from (old.owner, old.verified_by)
        and not findings.is_another_person(new.owner, new.verified_by)
      then
        broken := 'action_plan_verifier_is_another';
      end if;
  end case;
  if broken is not null then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = tg_table_name, constraint = broken,
      message = 'who validates is not seen to be another than the owner';
  end if;
  return new;
end
$$;

create trigger finding_guard_four_eyes before update on findings.finding
  for each row when (new.validated_by is not null) execute function findings.guard_four_eyes();
create trigger action_plan_guard_four_eyes before update on findings.action_plan
  for each row when (new.verified_by is not null) execute function findings.guard_four_eyes();
