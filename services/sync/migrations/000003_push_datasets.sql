-- Pushes of hierarchies: how many nodes a full push has made inactive.

alter table sync.run
  add column deactivated_count integer not null default 0
    constraint run_deactivated_not_negative check (deactivated_count >= 0);
