-- Answers to requests with an Idempotency-Key.

call tenancy.create_idempotency_table('keys', 'postern_keys');
