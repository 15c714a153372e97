-- The table is read once more, while readers and writers go on.
alter table universe.entity validate constraint entity_source_whole;
