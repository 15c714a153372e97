-- Answers to requests with an Idempotency-Key.

call tenancy.create_idempotency_table('sync', 'postern_sync');
