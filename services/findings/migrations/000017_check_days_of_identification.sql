-- The table is read once, while readers and writers go on.
alter table findings.finding validate constraint finding_identified_not_in_future;
