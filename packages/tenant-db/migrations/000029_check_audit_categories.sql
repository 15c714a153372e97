-- suits the running release: every event has one of the categories
alter table tenancy.audit_event validate constraint audit_event_category_known;
