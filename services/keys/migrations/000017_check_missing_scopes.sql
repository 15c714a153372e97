-- Both checks hold for all rows, because the checks that they replace were narrower. Validating them blocks no writes.
alter table keys.api_key_denial validate constraint api_key_denial_reason_known;
alter table keys.api_key_event validate constraint api_key_event_type_known;
