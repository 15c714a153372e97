-- A delivery that nobody can get is skipped.
-- suits the running release: it writes the states that were known before

alter table sync.webhook_delivery
  drop constraint webhook_delivery_state_known,
  add constraint webhook_delivery_state_known check (state in ('pending', 'delivered', 'failed', 'skipped')) not valid;
