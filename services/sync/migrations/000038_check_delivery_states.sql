-- suits the running release: every delivery has one of the states
alter table sync.webhook_delivery validate constraint webhook_delivery_state_known;
