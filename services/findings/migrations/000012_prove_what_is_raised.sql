-- What becomes serious while it is closed is proved like what was serious when it was closed; and whether it is costs no more
-- where much was said about a finding.
-- suits the running release: 1.0.0-beta.0, a mark in the history that nobody runs, would answer 500 to such a change of severity

-- Reads what was written since evidence was last named, and of that only the text of what moved the finding itself: both
-- setbacks do. tracker_log_with_evidence, tracker_log_seq_unique.
create or replace function findings.has_fresh_evidence(tenant uuid, finding uuid) returns boolean
  language sql
  stable
  set search_path = ''
as $$
  select exists (
    select from (
      select max(l.seq) as seq
      from findings.tracker_log l
      where l.tenant_id = tenant and l.finding_id = finding and l.has_evidence
    ) as last
    where last.seq is not null
      and not exists (
        select from findings.tracker_log setback
        where setback.tenant_id = tenant and setback.finding_id = finding and setback.seq >= last.seq
          and case
            when setback.kind <> 'status_change' or setback.action_plan_id is not null
              or setback.recommendation_id is not null then false
            else setback.entry::jsonb -> 'changes' @> '[{"field": "status", "from": "closed", "to": "open"}]'
              or setback.entry::jsonb -> 'changes'
                @> '[{"field": "status", "from": "pending_validation", "to": "in_remediation"}]'
          end
      )
  )
$$;

-- INVARIANT: what is serious and closed was closed, or became serious, only where its log names evidence of this remedy.
drop trigger finding_closing_evidence on findings.finding;
create constraint trigger finding_closing_evidence after update of status, severity on findings.finding
  deferrable initially deferred
  for each row
  when (
    new.status = 'closed' and new.severity in ('critical', 'high')
    and (old.status <> 'closed' or old.severity not in ('critical', 'high'))
  )
  execute function findings.guard_closing_evidence();
