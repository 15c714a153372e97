-- Runs stay when their connector is retired, and name it by the key that it had. One that a release before retires, or has retired, has
-- none but the one that took its place.

alter table sync.connector add column retired_key text;
comment on column sync.connector.retired_key is 'The key that it had until it was retired. Another connector may have it now.';
comment on column sync.connector.retired_at is
  'Deleted for its clients: kept because runs point at it. Its key is then a random one, so that its own can be given again.';
