-- Answers to requests with an Idempotency-Key, and findings in the change feed.

call tenancy.create_idempotency_table('findings', 'postern_findings');
call tenancy.track_changes('findings.finding', 'finding');
