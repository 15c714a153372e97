-- How far plans have brought what they carry out is decided here, for the service and for the trigger.
-- suits the running release: guard_carried_out refuses what it refused before; nothing calls status_by_plans there

-- The status that plans give a recommendation which was accepted, by their own: how far the live ones have all come. Null
-- where none is live; it is then moved by hand.
create function findings.status_by_plans(plans text[]) returns text
  language sql
  immutable
  parallel safe
  set search_path = ''
as $$
  select case
    when cardinality(live) = 0 then null
    when live <@ array['verified'] then 'verified'
    when live <@ array['implemented', 'verified'] then 'implemented'
    else 'accepted'
  end
  from (values (array_remove(array_remove(plans, 'rejected'), 'cancelled'))) as those (live)
$$;
grant execute on function findings.status_by_plans(text[]) to postern_findings;

-- INVARIANT: a recommendation moves no further than the live plans that carry it out, and back only where they are.
create or replace function findings.guard_carried_out() returns trigger
  language plpgsql
  set search_path = ''
as $$
declare
  -- action_plan_recommendation_by_recommendation, action_plan_pk
  by_plans constant text := findings.status_by_plans(array(
    select p.status
    from findings.action_plan_recommendation link
    join findings.action_plan p on p.tenant_id = link.tenant_id and p.id = link.action_plan_id
    where link.tenant_id = new.tenant_id and link.recommendation_id = new.id
  ));
begin
  -- Verified is reached by way of implemented.
  if new.status = 'implemented' and by_plans = 'accepted'
    or new.status = 'verified' and by_plans <> 'verified'
    or old.status = 'implemented' and new.status = 'accepted' and by_plans is distinct from 'accepted'
  then
    raise exception using
      errcode = 'check_violation', schema = 'findings', table = 'recommendation',
      constraint = 'recommendation_follows_plans',
      message = 'a recommendation follows the plans that carry it out';
  end if;
  return new;
end
$$;
