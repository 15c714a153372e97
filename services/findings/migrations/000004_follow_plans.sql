-- Recommendations, action plans and entries of the tracker log in the change feed. An entry has no id of its own: the
-- feed names the finding whose log has grown.

call tenancy.track_changes('findings.recommendation', 'recommendation');
call tenancy.track_changes('findings.action_plan', 'action_plan');
call tenancy.track_changes('findings.tracker_log', 'log_entry', 'finding_id');
