-- Entities in the change feed.

call tenancy.track_changes('universe.entity', 'entity');
