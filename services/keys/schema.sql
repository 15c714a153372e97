create schema keys authorization postern_owner;
grant usage on schema keys to postern_keys;
grant usage on schema keys to postern_keys_definer;
grant usage on schema keys to postern_sync;

create table keys.api_key (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  hash bytea not null,
  last_four text not null,
  label text not null,
  scopes text[] not null,
  allowed_addresses cidr[] not null default '{}'::cidr[],
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamp with time zone not null default date_trunc('milliseconds'::text, clock_timestamp()),
  expires_at timestamp with time zone not null,
  made_for interval not null,
  revoked_at timestamp with time zone,
  revoked_by_type text,
  revoked_by_id text,
  revoked_by_label text,
  revoke_reason text,
  last_used_at timestamp with time zone,
  rotated_from uuid,
  version integer not null default 1,
  limit_id uuid,
  last_refused_at timestamp with time zone,
  note text,
  owner_type text,
  owner_id text,
  owner_name text,
  owner_contact text,
  constraint api_key_pk PRIMARY KEY (tenant_id, id),
  constraint api_key_hash_unique UNIQUE (hash),
  constraint api_key_addresses_few CHECK (((cardinality(allowed_addresses) <= 100) AND (array_position(allowed_addresses, NULL::cidr) IS NULL))),
  constraint api_key_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['user'::text, 'machine'::text, 'operator'::text]))),
  constraint api_key_expires_after_creation CHECK ((expires_at >= created_at)),
  constraint api_key_hash_length CHECK ((octet_length(hash) = 32)),
  constraint api_key_label_length CHECK (((char_length(label) >= 1) AND (char_length(label) <= 100))),
  constraint api_key_last_four_form CHECK ((last_four ~ '^[0-9A-Za-z]{4}$'::text)),
  constraint api_key_note_length CHECK (((char_length(note) >= 1) AND (char_length(note) <= 1000))),
  constraint api_key_owner_length CHECK (((char_length(owner_id) <= 1000) AND (char_length(owner_name) <= 1000) AND (char_length(owner_contact) <= 254))),
  constraint api_key_owner_whole CHECK (
CASE owner_type
    WHEN 'person'::text THEN ((num_nonnulls(owner_id, owner_name) = 2) AND (owner_contact IS NULL))
    WHEN 'team'::text THEN ((num_nonnulls(owner_name, owner_contact) = 2) AND (owner_id IS NULL))
    ELSE (num_nonnulls(owner_type, owner_id, owner_name, owner_contact) = 0)
END),
  constraint api_key_reason_length CHECK (((char_length(revoke_reason) >= 1) AND (char_length(revoke_reason) <= 500))),
  constraint api_key_reason_when_revoked CHECK (((revoke_reason IS NULL) OR (revoked_at IS NOT NULL))),
  constraint api_key_revoked_by_someone CHECK ((num_nonnulls(revoked_at, revoked_by_type, revoked_by_id, revoked_by_label) = ANY (ARRAY[0, 4]))),
  constraint api_key_revoked_by_type_known CHECK ((revoked_by_type = ANY (ARRAY['user'::text, 'machine'::text, 'operator'::text, 'reporter'::text, 'policy'::text]))),
  constraint api_key_scopes_known CHECK ((scopes <@ ARRAY['read:universe'::text, 'read:findings'::text, 'write:evidence'::text, 'write:findings'::text, 'admin:sync'::text, 'read:*'::text, 'write:*'::text, 'admin:*'::text, '*'::text])),
  constraint api_key_scopes_some CHECK ((((cardinality(scopes) >= 1) AND (cardinality(scopes) <= 9)) AND (array_position(scopes, NULL::text) IS NULL))),
  constraint api_key_rotated_from_fk FOREIGN KEY (tenant_id, rotated_from) REFERENCES keys.api_key(tenant_id, id),
  constraint api_key_tenant_fk FOREIGN KEY (tenant_id) REFERENCES keys.tenant(tenant_id)
);
CREATE INDEX api_key_by_expiry ON keys.api_key USING btree (tenant_id, expires_at) WHERE (revoked_at IS NULL);
CREATE INDEX api_key_expired ON keys.api_key USING btree (expires_at) WHERE (revoked_at IS NULL);
CREATE INDEX api_key_expires ON keys.api_key USING btree (tenant_id, expires_at, id);
CREATE INDEX api_key_last_used ON keys.api_key USING btree (tenant_id, COALESCE(last_used_at, '-infinity'::timestamp with time zone));
CREATE INDEX api_key_of_owner ON keys.api_key USING btree (tenant_id, COALESCE(owner_id, owner_contact), id);
CREATE INDEX api_key_successor ON keys.api_key USING btree (tenant_id, rotated_from) WHERE (rotated_from IS NOT NULL);
CREATE TRIGGER api_key_change_is_assessed AFTER UPDATE ON keys.api_key REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION keys.assess_changed_keys();
CREATE CONSTRAINT TRIGGER api_key_change_is_logged AFTER UPDATE ON keys.api_key DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.version <> old.version)) EXECUTE FUNCTION keys.log_change();
CREATE TRIGGER api_key_changed_by_policy BEFORE UPDATE OF allowed_addresses ON keys.api_key FOR EACH ROW WHEN ((new.allowed_addresses IS DISTINCT FROM old.allowed_addresses)) EXECUTE FUNCTION keys.guard_key_policy();
CREATE TRIGGER api_key_guard BEFORE INSERT OR UPDATE ON keys.api_key FOR EACH ROW EXECUTE FUNCTION keys.guard_api_key();
CREATE TRIGGER api_key_made_by_policy BEFORE INSERT ON keys.api_key FOR EACH ROW EXECUTE FUNCTION keys.guard_key_policy();
CREATE TRIGGER api_key_made_is_assessed AFTER INSERT ON keys.api_key REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION keys.assess_changed_keys();
CREATE TRIGGER api_key_never_deleted BEFORE DELETE ON keys.api_key FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER api_key_never_emptied BEFORE TRUNCATE ON keys.api_key FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
alter table keys.api_key enable row level security;
alter table keys.api_key force row level security;
create policy postern_keys_definer_select on keys.api_key as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.api_key as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_insert on keys.api_key as permissive for insert to postern_keys with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_select on keys.api_key as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_update on keys.api_key as permissive for update to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table keys.api_key to postern_keys;
grant select on table keys.api_key to postern_keys_definer;
grant update (label) on table keys.api_key to postern_keys;
grant update (scopes) on table keys.api_key to postern_keys;
grant update (allowed_addresses) on table keys.api_key to postern_keys;
grant update (expires_at) on table keys.api_key to postern_keys;
grant update (revoked_at) on table keys.api_key to postern_keys;
grant update (revoked_by_type) on table keys.api_key to postern_keys;
grant update (revoked_by_id) on table keys.api_key to postern_keys;
grant update (revoked_by_label) on table keys.api_key to postern_keys;
grant update (revoke_reason) on table keys.api_key to postern_keys;
grant update (note) on table keys.api_key to postern_keys;
grant update (owner_type) on table keys.api_key to postern_keys;
grant update (owner_id) on table keys.api_key to postern_keys;
grant update (owner_name) on table keys.api_key to postern_keys;
grant update (owner_contact) on table keys.api_key to postern_keys;
grant update (expires_at) on table keys.api_key to postern_keys_definer;
grant update (revoked_at) on table keys.api_key to postern_keys_definer;
grant update (revoked_by_type) on table keys.api_key to postern_keys_definer;
grant update (revoked_by_id) on table keys.api_key to postern_keys_definer;
grant update (revoked_by_label) on table keys.api_key to postern_keys_definer;
grant update (revoke_reason) on table keys.api_key to postern_keys_definer;
grant update (last_used_at) on table keys.api_key to postern_keys_definer;
grant update (last_refused_at) on table keys.api_key to postern_keys_definer;
comment on column keys.api_key.hash is 'SHA-256 of the key. The key itself is stored nowhere.';
comment on column keys.api_key.made_for is 'From creation to the expiry it was made with: how long a key that replaces it lives.';
comment on column keys.api_key.version is 'Grows with every change but that of last_used_at and last_refused_at; counted by the guard trigger, never by the writer.';
comment on column keys.api_key.limit_id is 'Under which id the requests of the key are counted: that of the first key of its chain of rotations. Null in the first key.';
comment on column keys.api_key.last_refused_at is 'When a request with the key was last refused, for whatever reason.';
comment on column keys.api_key.owner_id is 'The id of a person. A team has owner_contact instead.';
comment on column keys.api_key.owner_name is 'The name of the owner when it became the owner.';

create table keys.api_key_address (
  tenant_id uuid not null,
  key_id uuid not null,
  address text not null,
  first_used_at timestamp with time zone not null default clock_timestamp(),
  last_used_at timestamp with time zone not null default clock_timestamp(),
  constraint api_key_address_pk PRIMARY KEY (tenant_id, key_id, address),
  constraint api_key_address_length CHECK (((char_length(address) >= 1) AND (char_length(address) <= 64))),
  constraint api_key_address_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
alter table keys.api_key_address enable row level security;
alter table keys.api_key_address force row level security;
create policy postern_keys_definer_delete on keys.api_key_address as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.api_key_address as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_address as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.api_key_address as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.api_key_address as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_address as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.api_key_address to postern_keys;
grant delete, insert, select, update on table keys.api_key_address to postern_keys_definer;

create table keys.api_key_address_drop (
  tenant_id uuid not null,
  key_id uuid not null,
  dropped bigint not null,
  constraint api_key_address_drop_pk PRIMARY KEY (tenant_id, key_id),
  constraint api_key_address_drop_some CHECK ((dropped > 0)),
  constraint api_key_address_drop_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
alter table keys.api_key_address_drop enable row level security;
alter table keys.api_key_address_drop force row level security;
create policy postern_keys_definer_insert on keys.api_key_address_drop as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_address_drop as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.api_key_address_drop as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.api_key_address_drop as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_address_drop as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.api_key_address_drop to postern_keys;
grant insert, select, update on table keys.api_key_address_drop to postern_keys_definer;
comment on table keys.api_key_address_drop is 'How often an address of a key had to make room for a newer one, or was not kept at all.';

create table keys.api_key_address_use (
  tenant_id uuid not null,
  key_id uuid not null,
  day date not null,
  address text not null,
  requests bigint not null,
  constraint api_key_address_use_pk PRIMARY KEY (tenant_id, key_id, day, address),
  constraint api_key_address_use_address_length CHECK ((char_length(address) <= 64)),
  constraint api_key_address_use_requests_some CHECK ((requests > 0)),
  constraint api_key_address_use_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE INDEX api_key_address_use_by_day ON keys.api_key_address_use USING btree (day);
alter table keys.api_key_address_use enable row level security;
alter table keys.api_key_address_use force row level security;
create policy postern_keys_definer_delete on keys.api_key_address_use as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.api_key_address_use as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_address_use as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.api_key_address_use as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.api_key_address_use as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_address_use as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.api_key_address_use to postern_keys;
grant delete, insert, select, update on table keys.api_key_address_use to postern_keys_definer;
comment on table keys.api_key_address_use is 'Accepted requests of a key by day (UTC) and address, of the last month. At most 100 addresses a day.';
comment on column keys.api_key_address_use.address is 'Empty for further addresses.';

create table keys.api_key_denial (
  tenant_id uuid not null,
  key_id uuid not null,
  reason text not null,
  noted_at timestamp with time zone not null default '-infinity'::timestamp with time zone,
  pending bigint not null default 0,
  address text not null,
  pending_addresses jsonb not null default '{}'::jsonb,
  constraint api_key_denial_pk PRIMARY KEY (tenant_id, key_id, reason),
  constraint api_key_denial_address_length CHECK (((char_length(address) >= 1) AND (char_length(address) <= 64))),
  constraint api_key_denial_pending_addresses_object CHECK ((jsonb_typeof(pending_addresses) = 'object'::text)),
  constraint api_key_denial_pending_not_negative CHECK ((pending >= 0)),
  constraint api_key_denial_reason_known CHECK ((reason = ANY (ARRAY['expired'::text, 'revoked'::text, 'address'::text, 'scope'::text]))),
  constraint api_key_denial_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE INDEX api_key_denial_due ON keys.api_key_denial USING btree (tenant_id, noted_at) WHERE (pending > 0);
alter table keys.api_key_denial enable row level security;
alter table keys.api_key_denial force row level security;
create policy postern_keys_definer_insert on keys.api_key_denial as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_denial as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.api_key_denial as permissive for update to postern_keys_definer using (true) with check (true);
create policy tenant_only on keys.api_key_denial as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table keys.api_key_denial to postern_keys_definer;
comment on column keys.api_key_denial.pending_addresses is 'Attempts among the pending ones by address, of the ten addresses that most came from.';

create table keys.api_key_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  key_id uuid not null,
  type text not null,
  at timestamp with time zone not null default date_trunc('milliseconds'::text, clock_timestamp()),
  actor_type text,
  actor_id text,
  actor_label text,
  address text,
  detail jsonb not null default '{}'::jsonb,
  constraint api_key_event_pk PRIMARY KEY (tenant_id, id),
  constraint api_key_event_actor_whole CHECK ((num_nonnulls(actor_type, actor_id, actor_label) = ANY (ARRAY[0, 3]))),
  constraint api_key_event_address_length CHECK (((char_length(address) >= 1) AND (char_length(address) <= 64))),
  constraint api_key_event_detail_object CHECK ((jsonb_typeof(detail) = 'object'::text)),
  constraint api_key_event_type_known CHECK ((type = ANY (ARRAY['created'::text, 'rotated'::text, 'updated'::text, 'revoked'::text, 'denied_expired'::text, 'denied_revoked'::text, 'denied_address'::text, 'denied_scope'::text, 'used_from_new_address'::text]))),
  constraint api_key_event_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE INDEX api_key_event_of_key ON keys.api_key_event USING btree (tenant_id, key_id, id DESC);
CREATE TRIGGER api_key_event_never_emptied BEFORE TRUNCATE ON keys.api_key_event FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER api_key_event_only_grows BEFORE DELETE OR UPDATE ON keys.api_key_event FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER audits_key_events AFTER INSERT ON keys.api_key_event REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION keys.audit_key_events();
CREATE TRIGGER notes_changed AFTER INSERT ON keys.api_key_event FOR EACH ROW WHEN ((new.type = 'updated'::text)) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.changed');
CREATE TRIGGER notes_created AFTER INSERT ON keys.api_key_event FOR EACH ROW WHEN ((new.type = 'created'::text)) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.created');
CREATE TRIGGER notes_leaked AFTER INSERT ON keys.api_key_event FOR EACH ROW WHEN (((new.type = 'revoked'::text) AND (new.actor_type = 'reporter'::text))) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.leaked', 'key.revoked');
CREATE TRIGGER notes_new_address AFTER INSERT ON keys.api_key_event FOR EACH ROW WHEN ((new.type = 'used_from_new_address'::text)) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.used_from_new_address');
CREATE TRIGGER notes_revoked AFTER INSERT ON keys.api_key_event FOR EACH ROW WHEN (((new.type = 'revoked'::text) AND (new.actor_type IS DISTINCT FROM 'reporter'::text))) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.revoked');
CREATE TRIGGER notes_rotated AFTER INSERT ON keys.api_key_event FOR EACH ROW WHEN ((new.type = 'rotated'::text)) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.rotated');
CREATE TRIGGER notes_use_after_revocation AFTER INSERT ON keys.api_key_event FOR EACH ROW WHEN ((new.type = 'denied_revoked'::text)) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.used_after_revocation');
alter table keys.api_key_event enable row level security;
alter table keys.api_key_event force row level security;
create policy postern_keys_definer_insert on keys.api_key_event as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_event as permissive for select to postern_keys_definer using (true);
create policy postern_keys_insert on keys.api_key_event as permissive for insert to postern_keys with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_select on keys.api_key_event as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_event as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table keys.api_key_event to postern_keys;
grant insert, select on table keys.api_key_event to postern_keys_definer;
comment on table keys.api_key_event is 'The audit trail: only grows. A change of a key and its event are one transaction.';

create table keys.api_key_health (
  tenant_id uuid not null,
  key_id uuid not null,
  reason text not null,
  constraint api_key_health_pk PRIMARY KEY (tenant_id, key_id, reason),
  constraint api_key_health_reason_known CHECK ((reason = ANY (ARRAY['never_used'::text, 'idle'::text, 'expiring'::text, 'rotation_due'::text, 'rotated_in_use'::text, 'wildcard'::text, 'no_address_limit'::text, 'owner_left'::text, 'outside_policy'::text, 'unneeded_scopes'::text, 'refused_often'::text]))),
  constraint api_key_health_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE INDEX api_key_health_by_reason ON keys.api_key_health USING btree (tenant_id, reason, key_id);
alter table keys.api_key_health enable row level security;
alter table keys.api_key_health force row level security;
create policy postern_keys_definer_delete on keys.api_key_health as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.api_key_health as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_health as permissive for select to postern_keys_definer using (true);
create policy postern_keys_select on keys.api_key_health as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_health as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.api_key_health to postern_keys;
grant delete, insert, select on table keys.api_key_health to postern_keys_definer;
comment on table keys.api_key_health is 'Why an active key needs a look. Triggers and housekeeping keep it.';

create table keys.api_key_refusal (
  tenant_id uuid not null,
  key_id uuid not null,
  at timestamp with time zone not null,
  request_id text not null,
  method text not null,
  route text,
  address text not null,
  code text not null,
  constraint api_key_refusal_pk PRIMARY KEY (tenant_id, key_id, at, request_id),
  constraint api_key_refusal_address_length CHECK (((char_length(address) >= 1) AND (char_length(address) <= 64))),
  constraint api_key_refusal_code_length CHECK (((char_length(code) >= 1) AND (char_length(code) <= 64))),
  constraint api_key_refusal_method_length CHECK (((char_length(method) >= 1) AND (char_length(method) <= 32))),
  constraint api_key_refusal_request_id_length CHECK (((char_length(request_id) >= 1) AND (char_length(request_id) <= 128))),
  constraint api_key_refusal_route_length CHECK (((char_length(route) >= 1) AND (char_length(route) <= 64))),
  constraint api_key_refusal_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE INDEX api_key_refusal_by_time ON keys.api_key_refusal USING btree (at);
alter table keys.api_key_refusal enable row level security;
alter table keys.api_key_refusal force row level security;
create policy postern_keys_definer_delete on keys.api_key_refusal as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.api_key_refusal as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_refusal as permissive for select to postern_keys_definer using (true);
create policy postern_keys_select on keys.api_key_refusal as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_refusal as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.api_key_refusal to postern_keys;
grant delete, insert, select on table keys.api_key_refusal to postern_keys_definer;
comment on table keys.api_key_refusal is 'The last 100 refused requests of a key, of the last month. Without the path, which may contain a secret.';

create table keys.api_key_refusal_count (
  tenant_id uuid not null,
  key_id uuid not null,
  day date not null,
  code text not null,
  route text not null,
  address text not null,
  refusals bigint not null,
  first_at timestamp with time zone not null,
  last_at timestamp with time zone not null,
  constraint api_key_refusal_count_pk PRIMARY KEY (tenant_id, key_id, day, code, route, address),
  constraint api_key_refusal_count_address_length CHECK ((char_length(address) <= 64)),
  constraint api_key_refusal_count_code_length CHECK (((char_length(code) >= 1) AND (char_length(code) <= 64))),
  constraint api_key_refusal_count_refusals_some CHECK ((refusals > 0)),
  constraint api_key_refusal_count_route_length CHECK ((char_length(route) <= 64)),
  constraint api_key_refusal_count_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE INDEX api_key_refusal_count_by_day ON keys.api_key_refusal_count USING btree (day);
alter table keys.api_key_refusal_count enable row level security;
alter table keys.api_key_refusal_count force row level security;
create policy postern_keys_definer_delete on keys.api_key_refusal_count as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.api_key_refusal_count as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_refusal_count as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.api_key_refusal_count as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.api_key_refusal_count as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_refusal_count as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.api_key_refusal_count to postern_keys;
grant delete, insert, select, update on table keys.api_key_refusal_count to postern_keys_definer;
comment on table keys.api_key_refusal_count is 'Refused requests of a key by day (UTC), problem code, route and address, of the last month. At most 100 rows with an address a day.';
comment on column keys.api_key_refusal_count.route is 'Empty if no route matched, and for further addresses.';
comment on column keys.api_key_refusal_count.address is 'Empty for further addresses.';

create table keys.api_key_review (
  tenant_id uuid not null,
  key_id uuid not null,
  review_at timestamp with time zone not null,
  constraint api_key_review_pk PRIMARY KEY (tenant_id, key_id),
  constraint api_key_review_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE INDEX api_key_review_due ON keys.api_key_review USING btree (review_at);
alter table keys.api_key_review enable row level security;
alter table keys.api_key_review force row level security;
create policy postern_keys_definer_insert on keys.api_key_review as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_review as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.api_key_review as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.api_key_review as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_review as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.api_key_review to postern_keys;
grant insert, select, update on table keys.api_key_review to postern_keys_definer;
comment on table keys.api_key_review is 'When the health of a key changes next, without a change of the key.';

create table keys.api_key_use (
  tenant_id uuid not null,
  key_id uuid not null,
  day date not null,
  route text not null,
  requests bigint not null,
  constraint api_key_use_pk PRIMARY KEY (tenant_id, key_id, day, route),
  constraint api_key_use_requests_some CHECK ((requests > 0)),
  constraint api_key_use_route_length CHECK (((char_length(route) >= 1) AND (char_length(route) <= 64))),
  constraint api_key_use_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE INDEX api_key_use_by_day ON keys.api_key_use USING btree (day);
alter table keys.api_key_use enable row level security;
alter table keys.api_key_use force row level security;
create policy postern_keys_definer_delete on keys.api_key_use as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.api_key_use as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.api_key_use as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.api_key_use as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.api_key_use as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.api_key_use as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.api_key_use to postern_keys;
grant delete, insert, select, update on table keys.api_key_use to postern_keys_definer;
comment on table keys.api_key_use is 'Requests of a key by day (UTC) and route, of the last month.';

create table keys.expired_scan (
  one boolean not null default true,
  scanned_until timestamp with time zone not null default now(),
  constraint expired_scan_pk PRIMARY KEY (one),
  constraint expired_scan_one_row CHECK (one)
);
alter table keys.expired_scan enable row level security;
alter table keys.expired_scan force row level security;
create policy postern_keys_definer_select on keys.expired_scan as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.expired_scan as permissive for update to postern_keys_definer using (true) with check (true);
grant select, update on table keys.expired_scan to postern_keys_definer;

create table keys.expiry_notice (
  tenant_id uuid not null,
  key_id uuid not null,
  days integer not null,
  noted_at timestamp with time zone not null default now(),
  constraint expiry_notice_pk PRIMARY KEY (tenant_id, key_id, days),
  constraint expiry_notice_days_known CHECK ((days = ANY (ARRAY[0, 1, 7, 14, 30]))),
  constraint expiry_notice_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE TRIGGER audits_expired AFTER INSERT ON keys.expiry_notice FOR EACH ROW WHEN ((new.days = 0)) EXECUTE FUNCTION keys.audit_key_expiry();
CREATE TRIGGER notes_expired AFTER INSERT ON keys.expiry_notice FOR EACH ROW WHEN ((new.days = 0)) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.expired');
CREATE TRIGGER notes_expiring AFTER INSERT ON keys.expiry_notice FOR EACH ROW WHEN ((new.days > 0)) EXECUTE FUNCTION tenancy.note_event('key_id', 'key.expiring');
alter table keys.expiry_notice enable row level security;
alter table keys.expiry_notice force row level security;
create policy postern_keys_definer_insert on keys.expiry_notice as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.expiry_notice as permissive for select to postern_keys_definer using (true);
create policy tenant_only on keys.expiry_notice as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table keys.expiry_notice to postern_keys_definer;
comment on column keys.expiry_notice.days is 'How long before its expiry; 0: it has expired.';

create table keys.expiry_scan (
  tenant_id uuid not null,
  scanned_until timestamp with time zone not null,
  constraint expiry_scan_pk PRIMARY KEY (tenant_id)
);
alter table keys.expiry_scan enable row level security;
alter table keys.expiry_scan force row level security;
create policy postern_keys_definer_insert on keys.expiry_scan as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.expiry_scan as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.expiry_scan as permissive for update to postern_keys_definer using (true) with check (true);
create policy tenant_only on keys.expiry_scan as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table keys.expiry_scan to postern_keys_definer;

create table keys.gateway_lease (
  gateway uuid not null,
  name text not null,
  acked bigint not null,
  lease_until timestamp with time zone not null,
  grant_id uuid not null default gen_random_uuid(),
  released boolean not null default false,
  constraint gateway_lease_pk PRIMARY KEY (gateway),
  constraint gateway_lease_name_length CHECK ((char_length(name) <= 100))
);
grant delete, insert, select, update on table keys.gateway_lease to postern_keys_definer;
comment on column keys.gateway_lease.lease_until is 'for people and the gauge; what a revoke waits for goes by no wall clock';
comment on column keys.gateway_lease.grant_id is 'another one with each grant, and never one that was: whether the lease was renewed';

create table keys.github_report (
  digest bytea not null,
  received_at timestamp with time zone not null default clock_timestamp(),
  constraint github_report_pk PRIMARY KEY (digest),
  constraint github_report_digest_length CHECK ((octet_length(digest) = 32))
);
grant delete, insert, select on table keys.github_report to postern_keys_definer;
comment on column keys.github_report.digest is 'SHA-256 of the body.';

create table keys.idempotency_record (
  tenant_id uuid not null,
  slot bytea not null,
  fingerprint bytea not null,
  claim_id uuid not null,
  claimed_at timestamp with time zone not null default now(),
  answer text,
  constraint idempotency_record_pk PRIMARY KEY (tenant_id, slot),
  constraint idempotency_record_fingerprint_is_hash CHECK ((octet_length(fingerprint) = 32)),
  constraint idempotency_record_slot_is_hash CHECK ((octet_length(slot) = 32))
);
CREATE INDEX idempotency_record_by_claimed_at ON keys.idempotency_record USING btree (tenant_id, claimed_at);
alter table keys.idempotency_record enable row level security;
alter table keys.idempotency_record force row level security;
create policy postern_keys_delete on keys.idempotency_record as permissive for delete to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_insert on keys.idempotency_record as permissive for insert to postern_keys with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_select on keys.idempotency_record as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_update on keys.idempotency_record as permissive for update to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.idempotency_record as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table keys.idempotency_record to postern_keys;
comment on table keys.idempotency_record is 'Requests with an Idempotency-Key, kept for a day. Without an answer: under way, or its process has died.';
comment on column keys.idempotency_record.slot is 'SHA-256 over principal, route and key: what a client has written is not kept.';
comment on column keys.idempotency_record.fingerprint is 'SHA-256 over what the request said: another one under the same key is told from a repetition.';
comment on column keys.idempotency_record.claim_id is 'Who may write the answer. It changes when the request is taken over.';

create table keys.idle_notice (
  tenant_id uuid not null,
  key_id uuid not null,
  due_at timestamp with time zone not null,
  days integer not null,
  noted_at timestamp with time zone not null default now(),
  constraint idle_notice_pk PRIMARY KEY (tenant_id, key_id),
  constraint idle_notice_days_known CHECK ((days = ANY (ARRAY[1, 7, 14, 30]))),
  constraint idle_notice_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id)
);
CREATE TRIGGER notes_idle AFTER INSERT ON keys.idle_notice FOR EACH ROW EXECUTE FUNCTION tenancy.note_event('key_id', 'key.expiring');
CREATE TRIGGER notes_idle_again AFTER UPDATE ON keys.idle_notice FOR EACH ROW EXECUTE FUNCTION tenancy.note_event('key_id', 'key.expiring');
alter table keys.idle_notice enable row level security;
alter table keys.idle_notice force row level security;
create policy postern_keys_definer_insert on keys.idle_notice as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.idle_notice as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.idle_notice as permissive for update to postern_keys_definer using (true) with check (true);
create policy tenant_only on keys.idle_notice as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table keys.idle_notice to postern_keys_definer;
comment on column keys.idle_notice.due_at is 'When the key was idle for too long. Another use makes it later.';
comment on column keys.idle_notice.noted_at is 'When this time was announced first.';

create table keys.key_policy_event (
  tenant_id uuid not null,
  version integer not null,
  at timestamp with time zone not null default date_trunc('milliseconds'::text, clock_timestamp()),
  actor_type text not null,
  actor_id text not null,
  actor_label text not null,
  max_key_days integer not null,
  required_addresses cidr[] not null,
  forbid_wildcards boolean not null default false,
  require_owner boolean not null default false,
  most_keys integer,
  rotation_days integer not null default 90,
  revoke_idle_days integer,
  audit_retention_days integer not null default 400,
  constraint key_policy_event_pk PRIMARY KEY (tenant_id, version),
  constraint key_policy_event_actor_length CHECK (((char_length(actor_type) <= 100) AND (char_length(actor_id) <= 1000) AND (char_length(actor_label) <= 1000))),
  constraint key_policy_event_tenant_fk FOREIGN KEY (tenant_id) REFERENCES keys.tenant(tenant_id)
);
CREATE TRIGGER audits_policy AFTER INSERT ON keys.key_policy_event FOR EACH ROW EXECUTE FUNCTION keys.audit_policy_event();
CREATE TRIGGER key_policy_event_never_emptied BEFORE TRUNCATE ON keys.key_policy_event FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER key_policy_event_only_grows BEFORE DELETE OR UPDATE ON keys.key_policy_event FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table keys.key_policy_event enable row level security;
alter table keys.key_policy_event force row level security;
create policy postern_keys_insert on keys.key_policy_event as permissive for insert to postern_keys with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_select on keys.key_policy_event as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.key_policy_event as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table keys.key_policy_event to postern_keys;
comment on table keys.key_policy_event is 'Who set the policy to what: only grows. A change and its event are one transaction.';

create table keys.member (
  tenant_id uuid not null,
  id text not null,
  name text not null,
  roles text[] not null,
  first_seen_at timestamp with time zone not null,
  last_seen_at timestamp with time zone not null,
  left_at timestamp with time zone,
  directory_hash bytea,
  constraint member_pk PRIMARY KEY (tenant_id, id),
  constraint member_directory_hash_length CHECK ((octet_length(directory_hash) = 32)),
  constraint member_id_length CHECK (((char_length(id) >= 1) AND (char_length(id) <= 255))),
  constraint member_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 255))),
  constraint member_roles_known CHECK ((roles <@ ARRAY['viewer'::text, 'auditor'::text, 'admin'::text])),
  constraint member_tenant_fk FOREIGN KEY (tenant_id) REFERENCES keys.tenant(tenant_id)
);
CREATE INDEX member_of_directory ON keys.member USING btree (tenant_id, directory_hash) WHERE (directory_hash IS NOT NULL);
CREATE TRIGGER member_left_is_assessed AFTER UPDATE ON keys.member FOR EACH ROW WHEN ((old.left_at IS DISTINCT FROM new.left_at)) EXECUTE FUNCTION keys.assess_keys_of_member();
alter table keys.member enable row level security;
alter table keys.member force row level security;
create policy postern_keys_definer_insert on keys.member as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.member as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.member as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.member as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.member as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.member to postern_keys;
grant insert, select, update on table keys.member to postern_keys_definer;
comment on table keys.member is 'Who has signed in, with the name and roles that the identity provider gave them last.';
comment on column keys.member.left_at is 'When a directory deactivated the person. Null while the person is active or in no directory.';
comment on column keys.member.directory_hash is 'Which name of the directory the token of the person held (tenancy.hash_name).';

create table keys.pending_overlap (
  tenant_id uuid not null,
  key_id uuid not null,
  successor_id uuid not null,
  overlap text not null,
  constraint pending_overlap_pk PRIMARY KEY (tenant_id, key_id),
  constraint pending_overlap_form CHECK ((overlap ~ '^[0-9]{1,4}[smhd]$'::text)),
  constraint pending_overlap_key_fk FOREIGN KEY (tenant_id, key_id) REFERENCES keys.api_key(tenant_id, id),
  constraint pending_overlap_successor_fk FOREIGN KEY (tenant_id, successor_id) REFERENCES keys.api_key(tenant_id, id)
);
alter table keys.pending_overlap enable row level security;
alter table keys.pending_overlap force row level security;
create policy postern_keys_definer_delete on keys.pending_overlap as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_select on keys.pending_overlap as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.pending_overlap as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_insert on keys.pending_overlap as permissive for insert to postern_keys with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_select on keys.pending_overlap as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_update on keys.pending_overlap as permissive for update to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.pending_overlap as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table keys.pending_overlap to postern_keys;
grant delete, select, update on table keys.pending_overlap to postern_keys_definer;
comment on table keys.pending_overlap is 'Rotated keys whose overlap begins when the successor is first used. Without effect once the successor is revoked or expired.';

create table keys.policy_review (
  tenant_id uuid not null,
  after_key uuid not null default '00000000-0000-0000-0000-000000000000'::uuid,
  constraint policy_review_pk PRIMARY KEY (tenant_id),
  constraint policy_review_tenant_fk FOREIGN KEY (tenant_id) REFERENCES keys.tenant(tenant_id)
);
alter table keys.policy_review enable row level security;
alter table keys.policy_review force row level security;
create policy postern_keys_definer_delete on keys.policy_review as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.policy_review as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.policy_review as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.policy_review as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.policy_review as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.policy_review as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.policy_review to postern_keys;
grant delete, insert, select, update on table keys.policy_review to postern_keys_definer;
comment on table keys.policy_review is 'Tenants whose key policy changed. Housekeeping assesses their keys in the order of their ids.';
comment on column keys.policy_review.after_key is 'Keys up to this id were assessed.';

create table keys.revocation (
  seq bigint not null,
  kind text not null,
  tenant_id uuid not null,
  hash bytea,
  version integer not null,
  revoked boolean not null,
  at timestamp with time zone not null default clock_timestamp(),
  mark_before text,
  constraint revocation_pk PRIMARY KEY (seq),
  constraint revocation_hash_of_key CHECK (((hash IS NOT NULL) = (kind = 'key'::text))),
  constraint revocation_kind_known CHECK ((kind = ANY (ARRAY['key'::text, 'tenant'::text])))
);
CREATE INDEX revocation_of_key ON keys.revocation USING btree (hash, seq) WHERE (kind = 'key'::text);
CREATE INDEX revocation_of_tenant ON keys.revocation USING btree (tenant_id, kind, seq);
alter table keys.revocation enable row level security;
alter table keys.revocation force row level security;
create policy postern_keys_definer_delete on keys.revocation as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.revocation as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.revocation as permissive for select to postern_keys_definer using (true);
create policy tenant_only on keys.revocation as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table keys.revocation to postern_keys_definer;
comment on table keys.revocation is 'What gateways must forget, in commit order. kind key: records of the hash below version; kind tenant: those of the tenant.';
comment on column keys.revocation.mark_before is 'The mark up to the entry before.';

create table keys.revocation_seq (
  single boolean not null default true,
  seq bigint not null default 0,
  mark text not null default encode(sha256(convert_to((gen_random_uuid())::text, 'UTF8'::name)), 'hex'::text),
  constraint revocation_seq_pk PRIMARY KEY (single),
  constraint revocation_seq_one_row CHECK (single)
);
grant select, update on table keys.revocation_seq to postern_keys_definer;
comment on column keys.revocation_seq.mark is 'SHA-256, in hex, of the mark before and the last entry: "mark seq kind hash-or-tenant version revoked", in UTF-8';

create table keys.route (
  id text not null,
  scopes text[] not null,
  constraint route_pk PRIMARY KEY (id),
  constraint route_id_length CHECK (((char_length(id) >= 1) AND (char_length(id) <= 64)))
);
grant select on table keys.route to postern_keys;
grant insert, select, update on table keys.route to postern_keys_definer;
comment on table keys.route is 'Every route that a release has had, and the scopes of which each one opens it.';

create table keys.sign_in (
  tenant_id uuid not null,
  person_id text not null,
  reason text not null,
  minute timestamp with time zone not null,
  address text not null,
  constraint sign_in_pk PRIMARY KEY (tenant_id, person_id, reason, minute, address),
  constraint sign_in_address_length CHECK (((char_length(address) >= 1) AND (char_length(address) <= 64))),
  constraint sign_in_person_id_length CHECK (((char_length(person_id) >= 1) AND (char_length(person_id) <= 255))),
  constraint sign_in_reason_length CHECK ((char_length(reason) <= 64)),
  constraint sign_in_tenant_fk FOREIGN KEY (tenant_id) REFERENCES keys.tenant(tenant_id)
);
CREATE INDEX sign_in_by_minute ON keys.sign_in USING btree (minute);
alter table keys.sign_in enable row level security;
alter table keys.sign_in force row level security;
create policy postern_keys_definer_delete on keys.sign_in as permissive for delete to postern_keys_definer using (true);
create policy postern_keys_definer_insert on keys.sign_in as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.sign_in as permissive for select to postern_keys_definer using (true);
create policy tenant_only on keys.sign_in as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table keys.sign_in to postern_keys_definer;
comment on table keys.sign_in is 'What the audit feed has of the last two days, so that a flood of sign-ins does not fill it.';
comment on column keys.sign_in.reason is 'Why it failed; empty if it succeeded.';

create table keys.tenant (
  tenant_id uuid not null default uuidv7(),
  slug text not null,
  name text not null,
  status text not null default 'active'::text,
  version integer not null default 1,
  max_key_days integer not null default 1825,
  key_limit integer not null default 6000,
  tenant_limit integer not null default 60000,
  created_at timestamp with time zone not null default date_trunc('milliseconds'::text, clock_timestamp()),
  required_addresses cidr[] not null default '{}'::cidr[],
  policy_version integer not null default 1,
  forbid_wildcards boolean not null default false,
  require_owner boolean not null default false,
  most_keys integer,
  rotation_days integer not null default 90,
  revoke_idle_days integer,
  revoke_idle_since timestamp with time zone not null default '-infinity'::timestamp with time zone,
  audit_retention_days integer not null default 400,
  constraint tenant_pk PRIMARY KEY (tenant_id),
  constraint tenant_slug_unique UNIQUE (slug),
  constraint tenant_audit_retention_days_range CHECK (((audit_retention_days >= 90) AND (audit_retention_days <= 3650))),
  constraint tenant_id_not_nil CHECK ((tenant_id <> '00000000-0000-0000-0000-000000000000'::uuid)),
  constraint tenant_key_limit_positive CHECK ((key_limit >= 1)),
  constraint tenant_max_key_days_range CHECK (((max_key_days >= 1) AND (max_key_days <= 36500))),
  constraint tenant_most_keys_positive CHECK ((most_keys >= 1)),
  constraint tenant_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 200))),
  constraint tenant_required_addresses_few CHECK ((cardinality(required_addresses) <= 100)),
  constraint tenant_revoke_idle_days_range CHECK (((revoke_idle_days >= 2) AND (revoke_idle_days <= 1825))),
  constraint tenant_rotation_days_range CHECK (((rotation_days >= 1) AND (rotation_days <= 1825))),
  constraint tenant_slug_form CHECK ((slug ~ '^[a-z][a-z0-9-]{1,62}$'::text)),
  constraint tenant_status_known CHECK ((status = ANY (ARRAY['active'::text, 'suspended'::text]))),
  constraint tenant_tenant_limit_positive CHECK ((tenant_limit >= 1))
);
CREATE TRIGGER sets_audit_retention AFTER UPDATE OF audit_retention_days ON keys.tenant FOR EACH ROW WHEN ((new.audit_retention_days <> old.audit_retention_days)) EXECUTE FUNCTION keys.set_audit_retention();
CREATE CONSTRAINT TRIGGER tenant_change_is_logged AFTER UPDATE ON keys.tenant DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.version <> old.version)) EXECUTE FUNCTION keys.log_change();
CREATE TRIGGER tenant_change_is_noted AFTER UPDATE ON keys.tenant FOR EACH ROW WHEN ((new.version <> old.version)) EXECUTE FUNCTION keys.note_tenant_change();
CREATE TRIGGER tenant_guard BEFORE UPDATE ON keys.tenant FOR EACH ROW EXECUTE FUNCTION keys.guard_tenant();
CREATE TRIGGER tenant_made_is_noted AFTER INSERT ON keys.tenant FOR EACH ROW EXECUTE FUNCTION keys.note_tenant_change();
CREATE TRIGGER tenant_never_deleted BEFORE DELETE ON keys.tenant FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER tenant_never_emptied BEFORE TRUNCATE ON keys.tenant FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER tenant_policy_is_reviewed AFTER UPDATE ON keys.tenant FOR EACH ROW WHEN ((old.policy_version <> new.policy_version)) EXECUTE FUNCTION keys.review_after_policy();
alter table keys.tenant enable row level security;
alter table keys.tenant force row level security;
create policy postern_keys_definer_insert on keys.tenant as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.tenant as permissive for select to postern_keys_definer using (true);
create policy postern_keys_definer_update on keys.tenant as permissive for update to postern_keys_definer using (true) with check (true);
create policy postern_keys_select on keys.tenant as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_update on keys.tenant as permissive for update to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on keys.tenant as restrictive for all to postern_keys, postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table keys.tenant to postern_keys;
grant insert, select on table keys.tenant to postern_keys_definer;
grant update (max_key_days) on table keys.tenant to postern_keys;
grant update (required_addresses) on table keys.tenant to postern_keys;
grant update (forbid_wildcards) on table keys.tenant to postern_keys;
grant update (require_owner) on table keys.tenant to postern_keys;
grant update (most_keys) on table keys.tenant to postern_keys;
grant update (rotation_days) on table keys.tenant to postern_keys;
grant update (revoke_idle_days) on table keys.tenant to postern_keys;
grant update (audit_retention_days) on table keys.tenant to postern_keys;
grant update (name) on table keys.tenant to postern_keys_definer;
grant update (status) on table keys.tenant to postern_keys_definer;
grant update (key_limit) on table keys.tenant to postern_keys_definer;
grant update (tenant_limit) on table keys.tenant to postern_keys_definer;
comment on column keys.tenant.version is 'Grows with every change of status, name or limits: what a gateway has cached of a lower version is void.';
comment on column keys.tenant.max_key_days is 'How many days a key of this tenant may live at most.';
comment on column keys.tenant.key_limit is 'Requests a minute that one key may make over all gateways.';
comment on column keys.tenant.tenant_limit is 'Requests a minute that all keys of the tenant together may make over all gateways.';
comment on column keys.tenant.required_addresses is 'Networks. Where there is one, a key must name addresses, and each must lie in one of them.';
comment on column keys.tenant.policy_version is 'Grows with every change of the key policy.';
comment on column keys.tenant.most_keys is 'How many active keys the tenant may have; null for any number. Rotations do not count.';
comment on column keys.tenant.rotation_days is 'The age at which a key is due for rotation.';
comment on column keys.tenant.revoke_idle_days is 'After how many days without a use a key is revoked; null for never.';
comment on column keys.tenant.revoke_idle_since is 'Idle days count from here at the earliest: since the rule is that strict, and the tenant is active.';
comment on column keys.tenant.audit_retention_days is 'For how many days audit events are kept.';

create table keys.tenant_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  type text not null,
  at timestamp with time zone not null default date_trunc('milliseconds'::text, clock_timestamp()),
  operator text,
  name text not null,
  key_limit integer not null,
  tenant_limit integer not null,
  constraint tenant_event_pk PRIMARY KEY (tenant_id, id),
  constraint tenant_event_operator_length CHECK (((char_length(operator) >= 1) AND (char_length(operator) <= 1000))),
  constraint tenant_event_type_known CHECK ((type = ANY (ARRAY['created'::text, 'suspended'::text, 'resumed'::text, 'changed'::text]))),
  constraint tenant_event_tenant_fk FOREIGN KEY (tenant_id) REFERENCES keys.tenant(tenant_id)
);
CREATE TRIGGER audits_tenant AFTER INSERT ON keys.tenant_event FOR EACH ROW EXECUTE FUNCTION keys.audit_tenant_event();
CREATE TRIGGER tenant_event_never_emptied BEFORE TRUNCATE ON keys.tenant_event FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER tenant_event_only_grows BEFORE DELETE OR UPDATE ON keys.tenant_event FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table keys.tenant_event enable row level security;
alter table keys.tenant_event force row level security;
create policy postern_keys_definer_insert on keys.tenant_event as permissive for insert to postern_keys_definer with check (true);
create policy postern_keys_definer_select on keys.tenant_event as permissive for select to postern_keys_definer using (true);
create policy tenant_only on keys.tenant_event as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table keys.tenant_event to postern_keys_definer;
comment on table keys.tenant_event is 'Each change of a tenant by the operator, with the name and limits that it has from then on: only grows. A change and its event are one transaction.';
comment on column keys.tenant_event.operator is 'The name that the operator goes by; null for a change by SQL.';

create table keys.usage_watch (
  single boolean not null default true,
  counted_from timestamp with time zone not null default '-infinity'::timestamp with time zone,
  seen_at timestamp with time zone not null default clock_timestamp(),
  constraint usage_watch_pk PRIMARY KEY (single),
  constraint usage_watch_one_row CHECK (single)
);
grant select on table keys.usage_watch to postern_keys;
grant select, update on table keys.usage_watch to postern_keys_definer;
comment on column keys.usage_watch.counted_from is 'Uses before this time may be missing, because a backup was restored.';
comment on column keys.usage_watch.seen_at is 'When housekeeping last ran. A gap of more than an hour sets counted_from.';

create view keys.idle_key with (security_invoker=true) as
 SELECT k.tenant_id,
    k.id,
    t.revoke_idle_days,
    (GREATEST(k.last_used_at, k.created_at, t.revoke_idle_since, w.counted_from) + ((t.revoke_idle_days)::double precision * '24:00:00'::interval)) AS due_at
   FROM ((keys.api_key k
     JOIN keys.tenant t ON ((t.tenant_id = k.tenant_id)))
     CROSS JOIN keys.usage_watch w)
  WHERE ((t.revoke_idle_days IS NOT NULL) AND (t.status = 'active'::text) AND (k.revoked_at IS NULL) AND (k.expires_at > clock_timestamp()) AND (COALESCE(k.last_used_at, '-infinity'::timestamp with time zone) <= ((clock_timestamp() - ((t.revoke_idle_days)::double precision * '24:00:00'::interval)) + '30 days'::interval)));
grant select on table keys.idle_key to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.add_counts(counts jsonb, more jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select coalesce(pg_catalog.jsonb_object_agg(top.address, top.attempts), '{}')
    from (select c.key as address, pg_catalog.sum(c.value::pg_catalog.int8) as attempts
            from (select * from pg_catalog.jsonb_each_text(counts)
                  union all
                  select * from pg_catalog.jsonb_each_text(more)) as c
           group by c.key
           order by attempts desc, address
           limit 10) as top
$function$;
grant execute on routine keys.add_counts(jsonb,jsonb) to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.assess_changed_keys()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  changed record;
begin
  if tg_op = 'INSERT' then
    for changed in
      select n.tenant_id, pg_catalog.array_agg(n.id) || pg_catalog.array_agg(n.rotated_from) as ids
        from after as n
       group by n.tenant_id
       order by n.tenant_id
    loop
      perform keys.assess_keys(changed.tenant_id, changed.ids);
    end loop;
    return null;
  end if;
  -- The first use of a day matters; later ones change no reason that housekeeping does not find within a minute.
  for changed in
    select d.tenant_id, pg_catalog.array_agg(d.id) || pg_catalog.array_agg(d.rotated_from) as ids
      from (select n.tenant_id, n.id, n.rotated_from, n.scopes, n.allowed_addresses, n.expires_at, n.revoked_at, n.owner_type,
                   n.owner_id, pg_catalog.date_trunc('day', n.last_used_at, 'UTC')
              from after as n
            except
            select o.tenant_id, o.id, o.rotated_from, o.scopes, o.allowed_addresses, o.expires_at, o.revoked_at, o.owner_type,
                   o.owner_id, pg_catalog.date_trunc('day', o.last_used_at, 'UTC')
              from before as o) as d
     group by d.tenant_id
     order by d.tenant_id
  loop
    perform keys.assess_keys(changed.tenant_id, changed.ids);
  end loop;
  return null;
end
$function$;
alter routine keys.assess_changed_keys() owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.assess_keys(of_tenant uuid, ids uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  moment pg_catalog.timestamptz;
begin
  insert into keys.api_key_review as r (tenant_id, key_id, review_at)
  select k.tenant_id, k.id, 'infinity'
    from keys.api_key as k
   where k.tenant_id = of_tenant
     and k.id = any (ids)
   order by k.id
      on conflict (tenant_id, key_id) do nothing;
  perform
    from keys.api_key_review as r
   where r.tenant_id = of_tenant
     and r.key_id = any (ids)
   order by r.key_id
     for update;
  moment := pg_catalog.clock_timestamp();

  -- Every key has one row of `facts`, so that no step compares all keys with all others.
  with facts as materialized (
    select k.id, k.revoked_at is null and k.expires_at > moment as is_active,
           k.created_at, k.expires_at, k.last_used_at, k.scopes, k.allowed_addresses, k.made_for, k.owner_type,
           k.last_refused_at, greatest(k.created_at, w.counted_from) + interval '30 days' as counted_at,
           s.created_at as successor_at,
           t.rotation_days * interval '1 day' as rotation_age,
           t.max_key_days * interval '24 hours' as longest, t.required_addresses, t.forbid_wildcards, t.require_owner,
           exists (
             select
               from keys.member as m
              where m.tenant_id = k.tenant_id
                and m.id = k.owner_id
                and m.left_at is not null) as has_left
      from keys.api_key as k
      join keys.tenant as t on t.tenant_id = k.tenant_id
     cross join keys.usage_watch as w
      left join lateral (
             select n.created_at
               from keys.api_key as n
              where n.tenant_id = k.tenant_id
                and n.rotated_from = k.id
                and n.revoked_at is null
                and n.expires_at > moment
              order by n.id desc
              limit 1) as s on true
     where k.tenant_id = of_tenant
       and k.id = any (ids)),
  assessed as materialized (
    select f.id, coalesce(found.reasons, '{}') as reasons, coalesce(next.at, 'infinity') as review_at
      from facts as f
      left join lateral (
             select pg_catalog.array_agg(r.reason) as reasons
               from (values
                      ('never_used', f.last_used_at is null and f.created_at <= moment - interval '1 day'),
                      ('idle', f.last_used_at <= moment - interval '90 days'),
                      ('expiring', f.expires_at <= moment + interval '30 days' and f.successor_at is null),
                      ('rotation_due', f.created_at <= moment - f.rotation_age and f.successor_at is null),
                      ('rotated_in_use', f.last_used_at > f.successor_at),
                      ('unneeded_scopes',
                       case when f.counted_at <= moment and f.last_used_at > moment - interval '31 days'
                         then keys.has_unneeded_scopes(of_tenant, f.id, f.scopes) else false end),
                      ('refused_often',
                       case when f.last_refused_at > moment - interval '8 days' then keys.is_refused_often(of_tenant, f.id) else false end),
                      ('wildcard', keys.has_wildcard(f.scopes)),
                      ('no_address_limit', pg_catalog.cardinality(f.allowed_addresses) = 0),
                      ('owner_left', f.has_left),
                      ('outside_policy',
                       f.made_for > f.longest
                         or f.forbid_wildcards and keys.has_wildcard(f.scopes)
                         or f.require_owner and f.owner_type is null
                         or not keys.narrows_addresses(f.allowed_addresses, f.required_addresses))) as r (reason, holds)
              where f.is_active and r.holds) as found on true
      left join lateral (
             select pg_catalog.min(n.at) as at
               from (values
                      (f.expires_at), (f.expires_at - interval '30 days'), (f.created_at + interval '1 day'),
                      (f.created_at + f.rotation_age), (f.last_used_at + interval '90 days'),
                      (case when f.successor_at is not null then moment + interval '1 minute' end),
                      (f.counted_at),
                      (case when f.last_used_at > moment - interval '31 days' or f.last_refused_at > moment - interval '8 days'
                         then moment + interval '1 day' end)) as n (at)
              where f.is_active and n.at > moment) as next on true),
  gone as (
    delete from keys.api_key_health as h
     using assessed as a
     where h.tenant_id = of_tenant
       and h.key_id = a.id
       and h.reason <> all (a.reasons)),
  kept as (
    insert into keys.api_key_health (tenant_id, key_id, reason)
    select of_tenant, a.id, found.reason
      from assessed as a
     cross join lateral pg_catalog.unnest(a.reasons) as found (reason)
        on conflict do nothing)
  update keys.api_key_review as r
     set review_at = a.review_at
    from assessed as a
   where r.tenant_id = of_tenant
     and r.key_id = a.id;
end
$function$;
alter routine keys.assess_keys(uuid,uuid[]) owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.assess_keys_of_member()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  perform keys.assess_keys(new.tenant_id, owned.ids)
     from (select pg_catalog.array_agg(k.id order by k.id) as ids
             from keys.api_key as k
            where k.tenant_id = new.tenant_id
              and coalesce(k.owner_id, k.owner_contact) = new.id
              and k.revoked_at is null) as owned
    where owned.ids is not null;
  return null;
end
$function$;
alter routine keys.assess_keys_of_member() owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.audit_key_events()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  -- api_key_pk
  perform tenancy.record_audit_event(
            e.tenant_id, e.at, 'key',
            case
              when e.type = 'updated' then 'key.changed'
              when e.type = 'revoked' and e.actor_type = 'reporter' then 'key.leaked'
              when e.type = 'denied_revoked' then 'key.used_after_revocation'
              when e.type like 'denied_%' then 'key.refused'
              else 'key.' || e.type
            end,
            case when e.type like 'denied_%' then 'failure' else 'success' end,
            case
              when e.type like 'denied_%' then pg_catalog.substr(e.type, 8)
              -- Other reporters are their address.
              when e.actor_type = 'reporter' and e.actor_id <> e.address
                then pg_catalog.concat(e.detail operator(pg_catalog.->>) 'reason', ' by ', e.actor_label)
              else e.detail operator(pg_catalog.->>) 'reason'
            end,
            case
              when e.actor_type is not null then tenancy.audit_actor_type(e.actor_type)
              when e.type like 'denied_%' or e.type = 'used_from_new_address' then 'key'
              else 'system'
            end,
            coalesce(e.actor_id, k.id::pg_catalog.text), coalesce(e.actor_label, k.label),
            'key', k.id::pg_catalog.text, k.label, e.address)
     from (select * from made order by id) as e
     join keys.api_key as k on k.tenant_id = e.tenant_id and k.id = e.key_id;
  return null;
end
$function$;
alter routine keys.audit_key_events() owner to postern_keys_definer;
grant execute on routine keys.audit_key_events() to postern_owner;

CREATE OR REPLACE FUNCTION keys.audit_key_expiry()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  perform tenancy.record_audit_event(
            k.tenant_id, k.expires_at, 'key', 'key.expired', 'success', null, 'system', null, 'Postern',
            'key', k.id::pg_catalog.text, k.label, null)
     from keys.api_key as k
    where k.tenant_id = new.tenant_id and k.id = new.key_id;
  return null;
end
$function$;
alter routine keys.audit_key_expiry() owner to postern_keys_definer;
grant execute on routine keys.audit_key_expiry() to postern_owner;

CREATE OR REPLACE FUNCTION keys.audit_policy_event()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  perform tenancy.record_audit_event(
    new.tenant_id, new.at, 'key_policy', 'key_policy.changed', 'success', null, tenancy.audit_actor_type(new.actor_type),
    new.actor_id, new.actor_label, 'key_policy', new.version::pg_catalog.text, 'Key policy', null);
  return null;
end
$function$;
alter routine keys.audit_policy_event() owner to postern_keys_definer;
grant execute on routine keys.audit_policy_event() to postern_owner;

CREATE OR REPLACE FUNCTION keys.audit_tenant_event()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  perform tenancy.record_audit_event(
    new.tenant_id, new.at, 'tenant', 'tenant.' || new.type, 'success', null, 'operator', coalesce(new.operator, 'operator'),
    coalesce(new.operator, 'operator'), 'tenant', new.tenant_id::pg_catalog.text, new.name, null);
  return null;
end
$function$;
alter routine keys.audit_tenant_event() owner to postern_keys_definer;
grant execute on routine keys.audit_tenant_event() to postern_owner;

CREATE OR REPLACE FUNCTION keys.count_addresses(uses jsonb)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with seen as (
    select k.tenant_id, k.id as key_id,
           (least(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0), pg_catalog.clock_timestamp()) at time zone 'UTC')::pg_catalog.date as day,
           u.address, pg_catalog.sum(r.requests) as requests
      from pg_catalog.jsonb_to_recordset(uses)
           as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, address pg_catalog.text, "lastUsedAt" pg_catalog.int8, routes pg_catalog.jsonb)
      join keys.api_key as k on k.tenant_id = u."tenantId" and k.id = u."keyId"
     cross join lateral (
             select pg_catalog.sum(r.value::pg_catalog.int8) as requests from pg_catalog.jsonb_each_text(u.routes) as r) as r
     where r.requests > 0
     group by 1, 2, 3, 4),
  named as (
    select seen.*, n.address is not null as is_known,
           pg_catalog.row_number() over (
             partition by seen.tenant_id, seen.key_id, seen.day, n.address is not null
                 order by seen.requests desc, seen.address) as place
      from seen
      left join keys.api_key_address_use as n
        on n.tenant_id = seen.tenant_id and n.key_id = seen.key_id and n.day = seen.day and n.address = seen.address),
  kept as (
    select n.tenant_id, n.key_id, n.day, n.requests,
           case when n.is_known or n.place + (
                       select pg_catalog.count(*)
                         from keys.api_key_address_use as a
                        where a.tenant_id = n.tenant_id and a.key_id = n.key_id and a.day = n.day and a.address <> '') <= 100
                then n.address else '' end as address
      from named as n)
  insert into keys.api_key_address_use as n (tenant_id, key_id, day, address, requests)
  select k.tenant_id, k.key_id, k.day, k.address, pg_catalog.sum(k.requests)
    from kept as k
   group by 1, 2, 3, 4
   order by 1, 2, 3, 4
      on conflict (tenant_id, key_id, day, address) do update set requests = n.requests + excluded.requests
$function$;
alter routine keys.count_addresses(jsonb) owner to postern_keys_definer;
grant execute on routine keys.count_addresses(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.count_refusals(refusals jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  moment constant pg_catalog.timestamptz := pg_catalog.clock_timestamp();
begin
  -- In one order, so that two reports about the same keys do not lock each other out.
  perform
    from keys.api_key as k
   where (k.tenant_id, k.id) in (
           select r."tenantId", r."keyId" from pg_catalog.jsonb_to_recordset(refusals) as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
   order by k.tenant_id, k.id
     for no key update;

  with seen as (
    select k.tenant_id, k.id as key_id,
           (least(pg_catalog.to_timestamp(c."lastAt" / 1000.0), moment) at time zone 'UTC')::pg_catalog.date as day,
           c.code, coalesce(c.route, '') as route, coalesce(c.address, '') as address, pg_catalog.sum(c.count) as refusals,
           pg_catalog.min(least(pg_catalog.to_timestamp(c."firstAt" / 1000.0), moment)) as first_at,
           pg_catalog.max(least(pg_catalog.to_timestamp(c."lastAt" / 1000.0), moment)) as last_at
      from pg_catalog.jsonb_to_recordset(refusals)
           as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, counts pg_catalog.jsonb)
      join keys.api_key as k on k.tenant_id = r."tenantId" and k.id = r."keyId"
     cross join lateral pg_catalog.jsonb_to_recordset(r.counts)
           as c (code pg_catalog.text, route pg_catalog.text, address pg_catalog.text, count pg_catalog.int8,
                 "firstAt" pg_catalog.int8, "lastAt" pg_catalog.int8)
     group by 1, 2, 3, 4, 5, 6),
  placed as (
    select seen.*, n.day is not null or seen.address = '' as is_kept,
           pg_catalog.row_number() over (
             partition by seen.tenant_id, seen.key_id, seen.day, n.day is not null or seen.address = ''
                 order by seen.refusals desc, seen.code, seen.route, seen.address) as place
      from seen
      left join keys.api_key_refusal_count as n
        on (n.tenant_id, n.key_id, n.day, n.code, n.route, n.address)
             = (seen.tenant_id, seen.key_id, seen.day, seen.code, seen.route, seen.address)),
  kept as (
    select p.tenant_id, p.key_id, p.day, p.code, p.route, p.address, p.refusals, p.first_at, p.last_at,
           p.is_kept or p.place + (
             select pg_catalog.count(*)
               from keys.api_key_refusal_count as c
              where c.tenant_id = p.tenant_id and c.key_id = p.key_id and c.day = p.day and c.address <> '') <= 100 as is_named
      from placed as p)
  insert into keys.api_key_refusal_count as n (tenant_id, key_id, day, code, route, address, refusals, first_at, last_at)
  select k.tenant_id, k.key_id, k.day, k.code,
         case when k.is_named then k.route else '' end, case when k.is_named then k.address else '' end,
         pg_catalog.sum(k.refusals), pg_catalog.min(k.first_at), pg_catalog.max(k.last_at)
    from kept as k
   group by 1, 2, 3, 4, 5, 6
   order by 1, 2, 3, 4, 5, 6
      on conflict (tenant_id, key_id, day, code, route, address) do update
     set refusals = n.refusals + excluded.refusals, first_at = least(n.first_at, excluded.first_at),
         last_at = greatest(n.last_at, excluded.last_at);

  insert into keys.api_key_refusal (tenant_id, key_id, at, request_id, method, route, address, code)
  select k.tenant_id, k.id, least(pg_catalog.to_timestamp(c.at / 1000.0), pg_catalog.date_trunc('milliseconds', moment)),
         c."requestId", c.method, c.route, c.address, c.code
    from pg_catalog.jsonb_to_recordset(refusals)
         as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, recent pg_catalog.jsonb)
    join keys.api_key as k on k.tenant_id = r."tenantId" and k.id = r."keyId"
   cross join lateral pg_catalog.jsonb_to_recordset(r.recent)
         as c (at pg_catalog.int8, "requestId" pg_catalog.text, method pg_catalog.text, route pg_catalog.text,
               address pg_catalog.text, code pg_catalog.text)
      on conflict do nothing;

  delete from keys.api_key_refusal as r
   using (select o.tenant_id, o.key_id, o.at, o.request_id,
                 pg_catalog.row_number() over (partition by o.tenant_id, o.key_id order by o.at desc, o.request_id desc) as place
            from keys.api_key_refusal as o
           where (o.tenant_id, o.key_id) in (
                   select n."tenantId", n."keyId"
                     from pg_catalog.jsonb_to_recordset(refusals) as n ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))) as old
   where old.place > 100
     and (r.tenant_id, r.key_id, r.at, r.request_id) = (old.tenant_id, old.key_id, old.at, old.request_id);
end
$function$;
alter routine keys.count_refusals(jsonb) owner to postern_keys_definer;
grant execute on routine keys.count_refusals(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.count_uses(uses jsonb)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  insert into keys.api_key_use as n (tenant_id, key_id, day, route, requests)
  select k.tenant_id, k.id,
         (least(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0), pg_catalog.clock_timestamp()) at time zone 'UTC')::pg_catalog.date,
         r.key, pg_catalog.sum(r.value::pg_catalog.int8)
    from pg_catalog.jsonb_to_recordset(uses)
         as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, "lastUsedAt" pg_catalog.int8, routes pg_catalog.jsonb)
    join keys.api_key as k on k.tenant_id = u."tenantId" and k.id = u."keyId"
   cross join lateral pg_catalog.jsonb_each_text(u.routes) as r (key, value)
   group by 1, 2, 3, 4
  -- In one order, so that two reports about the same keys do not lock each other out.
   order by 1, 2, 3, 4
      on conflict (tenant_id, key_id, day, route) do update set requests = n.requests + excluded.requests
$function$;
alter routine keys.count_uses(jsonb) owner to postern_keys_definer;
grant execute on routine keys.count_uses(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.covers_scope(granted text[], scope text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select scope = any (granted)
      or '*' = any (granted)
      or (scope <> '*' and pg_catalog.split_part(scope, ':', 1) || ':*' = any (granted))
$function$;
grant execute on routine keys.covers_scope(text[],text) to postern_keys;
grant execute on routine keys.covers_scope(text[],text) to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.create_tenant(new_slug text, new_name text, by_operator text)
 RETURNS TABLE(id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamp with time zone)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  perform tenancy.assert_operator();
  perform pg_catalog.set_config('postern.operator', by_operator, true);
  return query
    insert into keys.tenant as t (slug, name) values (new_slug, new_name)
    returning t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at;
end
$function$;
alter routine keys.create_tenant(text,text,text) owner to postern_keys_definer;
grant execute on routine keys.create_tenant(text,text,text) to postern_keys;

CREATE OR REPLACE FUNCTION keys.find_key_by_hash(wanted bytea)
 RETURNS TABLE(id uuid, tenant_id uuid, tenant_name text, tenant_status text, tenant_version integer, label text, last_four text, scopes text[], allowed_addresses text[], expires_at_ms bigint, revoked boolean, version integer, key_limit integer, tenant_limit integer, limit_id uuid, read_at_ms bigint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select k.id, k.tenant_id, t.name, t.status, t.version, k.label, k.last_four,
         k.scopes, k.allowed_addresses::pg_catalog.text[], pg_catalog.floor(extract(epoch from k.expires_at) * 1000)::pg_catalog.int8,
         k.revoked_at is not null, k.version, t.key_limit, t.tenant_limit,
         coalesce(k.limit_id, k.id),
         pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp()) * 1000)::pg_catalog.int8
    from keys.api_key as k
    join keys.tenant as t on t.tenant_id = k.tenant_id
   where k.hash = wanted
$function$;
alter routine keys.find_key_by_hash(bytea) owner to postern_keys_definer;
grant execute on routine keys.find_key_by_hash(bytea) to postern_keys;

CREATE OR REPLACE FUNCTION keys.find_key_to_notify(key uuid)
 RETURNS TABLE(label text, last_four text, is_leaked boolean, owner_type text, contact text, has_left boolean, directory_hash bytea)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  -- api_key_pk, member_pk
  select k.label, k.last_four, k.revoked_by_type is not distinct from 'reporter', k.owner_type, k.owner_contact,
         m.left_at is not null, m.directory_hash
    from keys.api_key as k
    left join keys.member as m on m.tenant_id = k.tenant_id and k.owner_type = 'person' and m.id = k.owner_id
   where k.tenant_id = (select tenancy.tenant_id())
     and k.id = key
$function$;
alter routine keys.find_key_to_notify(uuid) owner to postern_keys_definer;
grant execute on routine keys.find_key_to_notify(uuid) to postern_sync;

CREATE OR REPLACE FUNCTION keys.find_person(of_tenant uuid, attribute text, name text)
 RETURNS TABLE(hash bytea, version bigint, status text, read_at_ms bigint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select h.hash, c.seq, tenancy.find_person_status(of_tenant, h.hash),
         pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp()) * 1000)::pg_catalog.int8
    from keys.revocation_seq as c
   cross join (select tenancy.hash_name(of_tenant, attribute, name) as hash) as h
   where c.single
$function$;
alter routine keys.find_person(uuid,text,text) owner to postern_keys_definer;
grant execute on routine keys.find_person(uuid,text,text) to postern_keys;

CREATE OR REPLACE FUNCTION keys.find_tenant(wanted uuid)
 RETURNS TABLE(tenant_name text, tenant_status text, tenant_version integer, tenant_limit integer, read_at_ms bigint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select t.name, t.status, t.version, t.tenant_limit,
         pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp()) * 1000)::pg_catalog.int8
    from keys.tenant as t
   where t.tenant_id = wanted
$function$;
alter routine keys.find_tenant(uuid) owner to postern_keys_definer;
grant execute on routine keys.find_tenant(uuid) to postern_keys;

CREATE OR REPLACE FUNCTION keys.find_tenant_id(wanted_slug text)
 RETURNS uuid
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select t.tenant_id from keys.tenant as t where t.slug = wanted_slug
$function$;
alter routine keys.find_tenant_id(text) owner to postern_keys_definer;
grant execute on routine keys.find_tenant_id(text) to postern_keys;

CREATE OR REPLACE FUNCTION keys.follow_log(cursor_seq bigint, cursor_mark text, at_most integer)
 RETURNS TABLE(log_seq bigint, mark text, reset boolean, entries jsonb, now_ms bigint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with log as (
    select c.seq,
           coalesce((select pg_catalog.min(r.seq) from keys.revocation as r), c.seq + 1) - 1 as before_first
      from keys.revocation_seq as c
     where c.single),
  start as (
    select log.seq,
           cursor_seq is not null
             and (cursor_seq > log.seq
               or cursor_seq < log.before_first
               or coalesce(keys.mark_at(cursor_seq) <> cursor_mark, false)) as reset
      from log),
  entry as (
    select r.seq, r.kind, r.tenant_id, r.hash, r.version, r.revoked
      from keys.revocation as r
     where r.seq > (select case when cursor_seq is null or start.reset then 0 else cursor_seq end from start)
     order by r.seq
     limit at_most)
  select start.seq,
         keys.mark_at((
           select case when pg_catalog.count(*) < at_most then start.seq else pg_catalog.max(entry.seq) end from entry)),
         start.reset,
         coalesce((
           select pg_catalog.jsonb_agg(case entry.kind
                    when 'key' then pg_catalog.jsonb_build_object('kind', 'key', 'seq', entry.seq,
                      'hash', pg_catalog.encode(entry.hash, 'hex'), 'version', entry.version, 'revoked', entry.revoked)
                    else pg_catalog.jsonb_build_object('kind', 'tenant', 'seq', entry.seq,
                      'tenantId', entry.tenant_id, 'version', entry.version)
                  end order by entry.seq)
             from entry), '[]'),
         pg_catalog.floor(extract(epoch from pg_catalog.clock_timestamp()) * 1000)::pg_catalog.int8
    from start
$function$;
alter routine keys.follow_log(bigint,text,integer) owner to postern_keys_definer;
grant execute on routine keys.follow_log(bigint,text,integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.forget_leases(gone uuid[], last_grants uuid[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  delete from keys.gateway_lease as l
   using rows from (pg_catalog.unnest(gone), pg_catalog.unnest(last_grants)) as g (gateway, grant_id)
   where l.gateway = g.gateway
     and l.grant_id = g.grant_id
$function$;
alter routine keys.forget_leases(uuid[],uuid[]) owner to postern_keys_definer;
grant execute on routine keys.forget_leases(uuid[],uuid[]) to postern_keys;

CREATE OR REPLACE FUNCTION keys.grant_lease(for_gateway uuid, for_name text, cursor_seq bigint, cursor_mark text, lease_ms integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  insert into keys.gateway_lease as l (gateway, name, acked, lease_until, grant_id)
  select for_gateway, for_name, cursor_seq, pg_catalog.clock_timestamp() + lease_ms * interval '1 millisecond',
         pg_catalog.gen_random_uuid()
    from keys.revocation_seq as c
   where c.seq = cursor_seq
     and c.mark = coalesce(cursor_mark, c.mark)
      on conflict (gateway) do update
     set name = excluded.name,
         acked = greatest(l.acked, excluded.acked),
         lease_until = greatest(l.lease_until, excluded.lease_until),
         grant_id = excluded.grant_id,
         released = false;
  if found then
    return true;
  end if;
  -- It lags again, but what it has applied it has applied: who waits for an earlier entry need wait no longer.
  update keys.gateway_lease as l
     set acked = cursor_seq
   where l.gateway = for_gateway
     and l.acked < cursor_seq
     and cursor_seq <= (select c.seq from keys.revocation_seq as c where c.single)
     and (cursor_mark is null or coalesce(keys.mark_at(cursor_seq), cursor_mark) = cursor_mark);
  return false;
end
$function$;
alter routine keys.grant_lease(uuid,text,bigint,text,integer) owner to postern_keys_definer;
grant execute on routine keys.grant_lease(uuid,text,bigint,text,integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.guard_api_key()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  moment constant timestamptz := pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp());
  max_days integer;
begin
  if tg_op = 'INSERT' then
    if new.revoked_at is not null or new.last_used_at is not null or new.last_refused_at is not null or new.version <> 1 then
      raise exception using errcode = '23514', constraint = 'api_key_begins_active', message = 'a key begins active and unused';
    end if;
    if new.created_at > moment then
      raise exception using errcode = '23514', constraint = 'api_key_created_now', message = 'a key is not made in the future';
    end if;
    select t.max_key_days into max_days from keys.tenant as t where t.tenant_id = new.tenant_id;
    if found and new.expires_at > new.created_at + pg_catalog.make_interval(hours => 24 * max_days) then
      raise exception using errcode = '23514', constraint = 'api_key_within_maximum', message = 'the key would live too long';
    end if;
    new.made_for := new.expires_at - new.created_at;
    select coalesce(k.limit_id, k.id) into new.limit_id
      from keys.api_key as k
     where k.tenant_id = new.tenant_id
       and k.id = new.rotated_from;
    -- The release before this column names no owner.
    if new.owner_type is null and new.created_by_type = 'user' then
      new.owner_type := 'person';
      new.owner_id := pg_catalog.left(new.created_by_id, 1000);
      new.owner_name := pg_catalog.left(new.created_by_label, 1000);
    end if;
    return new;
  end if;

  if (new.tenant_id, new.id, new.hash, new.last_four, new.created_by_type, new.created_by_id, new.created_by_label,
      new.created_at, new.made_for, new.rotated_from, new.limit_id)
     is distinct from
     (old.tenant_id, old.id, old.hash, old.last_four, old.created_by_type, old.created_by_id, old.created_by_label,
      old.created_at, old.made_for, old.rotated_from, old.limit_id) then
    raise exception using errcode = '23514', constraint = 'api_key_origin_is_fixed', message = 'what a key was made as never changes';
  end if;
  if new.last_used_at is null and old.last_used_at is not null or new.last_used_at < old.last_used_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_use_grows', message = 'the last use of a key never goes back';
  end if;
  if new.last_refused_at is null and old.last_refused_at is not null or new.last_refused_at < old.last_refused_at then
    raise exception using errcode = '23514', constraint = 'api_key_last_refusal_grows', message = 'the last refusal of a key never goes back';
  end if;

  new.version := old.version;
  if (new.label, new.note, new.owner_type, new.owner_id, new.owner_name, new.owner_contact,
      new.scopes, new.allowed_addresses, new.expires_at,
      new.revoked_at, new.revoked_by_type, new.revoked_by_id, new.revoked_by_label, new.revoke_reason)
     is not distinct from
     (old.label, old.note, old.owner_type, old.owner_id, old.owner_name, old.owner_contact,
      old.scopes, old.allowed_addresses, old.expires_at,
      old.revoked_at, old.revoked_by_type, old.revoked_by_id, old.revoked_by_label, old.revoke_reason) then
    return new;
  end if;

  if old.revoked_at is not null then
    raise exception using errcode = '23514', constraint = 'api_key_revoked_is_final', message = 'a revoked key never changes';
  end if;
  if new.owner_type is null and old.owner_type is not null then
    raise exception using errcode = '23514', constraint = 'api_key_keeps_an_owner', message = 'a key gets another owner, never none';
  end if;
  if new.expires_at > old.expires_at
     or not keys.narrows_addresses(new.allowed_addresses, old.allowed_addresses)
     or exists (
          select
            from pg_catalog.unnest(new.scopes) as s (scope)
           where keys.covers_scope(old.scopes, s.scope) is not true) then
    raise exception using errcode = '23514', constraint = 'api_key_only_narrows', message = 'a key never gets wider';
  end if;
  if new.revoked_at is not null then
    -- The database's clock, whatever the writer thinks.
    new.revoked_at := moment;
  end if;
  new.version := old.version + 1;
  return new;
end
$function$;
grant execute on routine keys.guard_api_key() to postern_keys;
grant execute on routine keys.guard_api_key() to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.guard_key_policy()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  policy record;
begin
  select t.required_addresses, t.forbid_wildcards, t.require_owner into policy
    from keys.tenant as t
   where t.tenant_id = new.tenant_id;
  if not found then
    return new;
  end if;
  if not keys.narrows_addresses(new.allowed_addresses, policy.required_addresses) then
    raise exception using errcode = '23514', constraint = 'api_key_within_required_addresses',
      message = 'the key is not limited to the networks that its tenant requires';
  end if;
  if tg_op = 'INSERT' and policy.forbid_wildcards and keys.has_wildcard(new.scopes) then
    raise exception using errcode = '23514', constraint = 'api_key_without_wildcards', message = 'the tenant forbids wildcards';
  end if;
  -- api_key_guard, which sets the default owner, runs first: triggers run in the order of their names.
  if tg_op = 'INSERT' and policy.require_owner and new.owner_type is null then
    raise exception using errcode = '23514', constraint = 'api_key_with_owner', message = 'the tenant requires an owner';
  end if;
  return new;
end
$function$;
grant execute on routine keys.guard_key_policy() to postern_keys;
grant execute on routine keys.guard_key_policy() to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.guard_tenant()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if (new.tenant_id, new.slug, new.created_at) is distinct from (old.tenant_id, old.slug, old.created_at) then
    raise exception using errcode = '23514', constraint = 'tenant_origin_is_fixed', message = 'what a tenant was made as never changes';
  end if;
  new.version := old.version + case
    when (new.status, new.name, new.key_limit, new.tenant_limit)
      is distinct from (old.status, old.name, old.key_limit, old.tenant_limit) then 1 else 0 end;
  new.policy_version := old.policy_version + case
    when (new.max_key_days, new.required_addresses, new.forbid_wildcards, new.require_owner, new.most_keys, new.rotation_days,
          new.revoke_idle_days, new.audit_retention_days)
      is distinct from
         (old.max_key_days, old.required_addresses, old.forbid_wildcards, old.require_owner, old.most_keys, old.rotation_days,
          old.revoke_idle_days, old.audit_retention_days)
    then 1 else 0 end;
  new.revoke_idle_since := case
    when new.revoke_idle_days < coalesce(old.revoke_idle_days, 'infinity'::pg_catalog.float8) or new.status <> old.status
      then pg_catalog.clock_timestamp()
    else old.revoke_idle_since end;
  return new;
end
$function$;
grant execute on routine keys.guard_tenant() to postern_keys;
grant execute on routine keys.guard_tenant() to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.has_unneeded_scopes(of_tenant uuid, of_key uuid, granted text[])
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  select pg_catalog.cardinality(keys.list_unneeded_scopes(of_tenant, of_key, granted)) between 1 and (
    select pg_catalog.count(*) - 1
      from pg_catalog.unnest(array['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync']) as s (name)
     where granted operator(pg_catalog.&&) array[s.name, pg_catalog.split_part(s.name, ':', 1) || ':*', '*'])
$function$;
grant execute on routine keys.has_unneeded_scopes(uuid,uuid,text[]) to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.has_wildcard(scopes text[])
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select scopes operator(pg_catalog.&&) array['*', 'read:*', 'write:*', 'admin:*']
$function$;
grant execute on routine keys.has_wildcard(text[]) to postern_keys;
grant execute on routine keys.has_wildcard(text[]) to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.insert_denials(of_tenant uuid, of_key uuid, why text, total bigint, named jsonb)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  insert into keys.api_key_event (tenant_id, key_id, type, address, detail)
  select of_tenant, of_key, 'denied_' || why, d.address, d.detail
    from (select n.key as address, n.value::pg_catalog.int8 as attempts,
                 pg_catalog.jsonb_build_object('attempts', n.value::pg_catalog.int8) as detail
            from pg_catalog.jsonb_each_text(named) as n
          union all
          select null, rest.attempts, pg_catalog.jsonb_build_object('attempts', rest.attempts, 'other_addresses', true)
            from (select total - coalesce(pg_catalog.sum(n.value::pg_catalog.int8), 0) as attempts
                    from pg_catalog.jsonb_each_text(named) as n) as rest
           where rest.attempts > 0) as d
   order by d.address is not null, d.attempts, d.address
$function$;
alter routine keys.insert_denials(uuid,uuid,text,bigint,jsonb) owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.is_refused_often(of_tenant uuid, of_key uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  with refused as (
    select coalesce(pg_catalog.sum(r.refusals), 0) as refusals
      from keys.api_key_refusal_count as r
     where r.tenant_id = of_tenant
       and r.key_id = of_key
       and r.day > (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - 7)
  select refused.refusals >= 50 and refused.refusals * 9 >= (
           select coalesce(pg_catalog.sum(u.requests), 0)
             from keys.api_key_use as u
            where u.tenant_id = of_tenant
              and u.key_id = of_key
              and u.day > (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - 7)
    from refused
$function$;
grant execute on routine keys.is_refused_often(uuid,uuid) to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.last_key_change(wanted bytea)
 RETURNS TABLE(seq bigint, version integer, revoked boolean)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select r.seq, r.version, r.revoked
    from keys.revocation as r
   where r.kind = 'key'
     and r.hash = wanted
   order by r.seq desc
   limit 1
$function$;
alter routine keys.last_key_change(bytea) owner to postern_keys_definer;
grant execute on routine keys.last_key_change(bytea) to postern_keys;

CREATE OR REPLACE FUNCTION keys.last_tenant_change(wanted uuid)
 RETURNS TABLE(seq bigint, version integer)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select r.seq, r.version
    from keys.revocation as r
   where r.kind = 'tenant'
     and r.tenant_id = wanted
   order by r.seq desc
   limit 1
$function$;
alter routine keys.last_tenant_change(uuid) owner to postern_keys_definer;
grant execute on routine keys.last_tenant_change(uuid) to postern_keys;

CREATE OR REPLACE FUNCTION keys.list_tenant_events(id_or_slug text, before_id uuid, at_most integer)
 RETURNS TABLE(id uuid, type text, at timestamp with time zone, operator text, name text, key_limit integer, tenant_limit integer)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select e.id, e.type, e.at, e.operator, e.name, e.key_limit, e.tenant_limit
    from keys.tenant_event as e
    join keys.tenant as t on t.tenant_id = e.tenant_id
   where (select tenancy.assert_operator())
     and id_or_slug in (t.tenant_id::pg_catalog.text, t.slug)
     and (before_id is null or e.id < before_id)
   order by e.id desc
   limit at_most
$function$;
alter routine keys.list_tenant_events(text,uuid,integer) owner to postern_keys_definer;
grant execute on routine keys.list_tenant_events(text,uuid,integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.list_tenants(behind_slug text, at_most integer)
 RETURNS TABLE(id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at
    from keys.tenant as t
   where (select tenancy.assert_operator())
     and t.slug > coalesce(behind_slug, '')
   order by t.slug
   limit at_most
$function$;
alter routine keys.list_tenants(text,integer) owner to postern_keys_definer;
grant execute on routine keys.list_tenants(text,integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.list_unneeded_scopes(of_tenant uuid, of_key uuid, granted text[])
 RETURNS text[]
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  with used as (
    select u.route, r.scopes
      from (select distinct n.route
              from keys.api_key_use as n
             where n.tenant_id = of_tenant
               and n.key_id = of_key
               and n.day > (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - 30) as u
      left join keys.route as r on r.id = u.route)
  select case
    when exists (select from used where used.scopes is null) then '{}'
    else array(
      select s.name
        from pg_catalog.unnest(array['read:universe', 'read:findings', 'write:evidence', 'write:findings', 'admin:sync']) as s (name)
       where granted operator(pg_catalog.&&) array[s.name, pg_catalog.split_part(s.name, ':', 1) || ':*', '*']
         and not exists (select from used where s.name = any (used.scopes))
       order by s.name)
    end
$function$;
grant execute on routine keys.list_unneeded_scopes(uuid,uuid,text[]) to postern_keys;
grant execute on routine keys.list_unneeded_scopes(uuid,uuid,text[]) to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.log_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  next bigint;
  before text;
  told text;
begin
  -- A revocation that was answered must survive a crash, also where somebody has relaxed the server for speed.
  if pg_catalog.current_setting('synchronous_commit') = 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'local', true);
  end if;
  select c.seq + 1, c.mark into strict next, before from keys.revocation_seq as c where c.single for update;
  if tg_table_name = 'api_key' then
    insert into keys.revocation (seq, kind, tenant_id, hash, version, revoked, mark_before)
    values (next, 'key', new.tenant_id, new.hash, new.version, new.revoked_at is not null, before);
    told := pg_catalog.concat_ws(' ', 'key', pg_catalog.encode(new.hash, 'hex'), new.version,
              case when new.revoked_at is null then 0 else 1 end);
  else
    insert into keys.revocation (seq, kind, tenant_id, version, revoked, mark_before)
    values (next, 'tenant', new.tenant_id, new.version, new.status = 'suspended', before);
    told := pg_catalog.concat_ws(' ', 'tenant', new.tenant_id, new.version, 0);
  end if;
  update keys.revocation_seq as c
     set seq = next,
         mark = pg_catalog.encode(
           pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat_ws(' ', before, next, told), 'UTF8')), 'hex')
   where c.single;
  return null;
end
$function$;
alter routine keys.log_change() owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.log_people()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  noted text := pg_catalog.current_setting('keys.changed_people', true);
  tenants pg_catalog.uuid[];
  hashes pg_catalog.bytea[];
  marks pg_catalog.text[];
  next bigint;
  before text;
begin
  if coalesce(noted, '') = '' then
    return null;
  end if;
  perform pg_catalog.set_config('keys.changed_people', '', true);
  select pg_catalog.array_agg(p.tenant_id), pg_catalog.array_agg(p.hash)
    into tenants, hashes
    from (select pg_catalog.split_part(line, ' ', 1)::pg_catalog.uuid as tenant_id,
                 pg_catalog.decode(pg_catalog.split_part(line, ' ', 2), 'hex') as hash,
                 pg_catalog.bool_or(pg_catalog.split_part(line, ' ', 3) = '1') as was_active
            from pg_catalog.string_to_table(noted, ',') as line
           group by 1, 2) as p
   where p.was_active
      or tenancy.has_active_person(p.tenant_id, p.hash);
  if hashes is null then
    return null;
  end if;
  if pg_catalog.current_setting('synchronous_commit') = 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'local', true);
  end if;
  select c.seq, c.mark into strict next, before from keys.revocation_seq as c where c.single for update;
  marks := pg_catalog.array_fill(before, array[pg_catalog.cardinality(hashes)]);
  for place in 1 .. pg_catalog.cardinality(hashes) loop
    marks[place] := before;
    before := pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat_ws(' ',
      before, next + place, 'key', pg_catalog.encode(hashes[place], 'hex'), next + place, 0), 'UTF8')), 'hex');
  end loop;
  insert into keys.revocation (seq, kind, tenant_id, hash, version, revoked, mark_before)
  select next + p.place, 'key', p.tenant_id, p.hash, next + p.place, false, p.mark
    from unnest(tenants, hashes, marks) with ordinality as p (tenant_id, hash, mark, place);
  next := next + pg_catalog.cardinality(hashes);
  update keys.revocation_seq as c set seq = next, mark = before where c.single;
  return null;
end
$function$;
alter routine keys.log_people() owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.mark_at(wanted bigint)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select case c.seq
           when wanted then c.mark
           else (select r.mark_before from keys.revocation as r where r.seq = wanted + 1)
         end
    from keys.revocation_seq as c
   where c.single
$function$;
alter routine keys.mark_at(bigint) owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.mark_leavers()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  -- member_of_directory
  perform from keys.member as m where m.tenant_id = new.tenant_id and m.directory_hash = new.hash;
  if not found then
    return null;
  end if;
  update keys.member as m
     set left_at = case when s.status = 'inactive'
                        then coalesce(m.left_at, pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) end
    from (select tenancy.find_person_status(new.tenant_id, new.hash) as status) as s
   where m.tenant_id = new.tenant_id
     and m.directory_hash = new.hash
     and (s.status = 'inactive') is distinct from (m.left_at is not null);
  return null;
end
$function$;
alter routine keys.mark_leavers() owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.narrows_addresses(new_list cidr[], old_list cidr[])
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select pg_catalog.cardinality(old_list) = 0
      or (pg_catalog.cardinality(new_list) > 0 and not exists (
            select
              from pg_catalog.unnest(new_list) as n (range)
             where not exists (
                     select
                       from pg_catalog.unnest(old_list) as o (range)
                      where n.range operator(pg_catalog.<<=) o.range)))
$function$;
grant execute on routine keys.narrows_addresses(cidr[],cidr[]) to postern_keys;
grant execute on routine keys.narrows_addresses(cidr[],cidr[]) to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.note_expired(most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  since pg_catalog.timestamptz;
  until pg_catalog.timestamptz := pg_catalog.now() - interval '1 minute';
  noted pg_catalog.int8;
begin
  select s.scanned_until into since from keys.expired_scan as s where s.scanned_until < until for update skip locked;
  if not found then
    return 0;
  end if;
  -- api_key_expired
  select coalesce(pg_catalog.max(next.expires_at), until)
    into until
    from (select k.expires_at
            from keys.api_key as k
           where k.expires_at > since and k.expires_at <= until and k.revoked_at is null
           order by k.expires_at
          offset greatest(most - 1, 0) limit 1) as next;
  insert into keys.expiry_notice (tenant_id, key_id, days)
  select k.tenant_id, k.id, 0
    from keys.api_key as k
   where k.expires_at > since and k.expires_at <= until and k.revoked_at is null
   order by k.expires_at, k.id
      on conflict do nothing;
  get diagnostics noted = row_count;
  update keys.expired_scan as s set scanned_until = until;
  return noted;
end
$function$;
alter routine keys.note_expired(integer) owner to postern_keys_definer;
grant execute on routine keys.note_expired(integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.note_expiring()
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  scan record;
  until constant pg_catalog.timestamptz := pg_catalog.now() - interval '1 minute';
begin
  insert into keys.expiry_scan (tenant_id, scanned_until)
  select r.tenant_id, r.since from tenancy.list_event_readers() as r
      on conflict (tenant_id) do nothing;
  for scan in
    select s.tenant_id, greatest(s.scanned_until, r.since) as since
      from keys.expiry_scan as s
      join tenancy.list_event_readers() as r on r.tenant_id = s.tenant_id
     where s.scanned_until < until
     order by s.tenant_id
       for update of s skip locked
  loop
    -- api_key_by_expiry
    insert into keys.expiry_notice (tenant_id, key_id, days)
    select k.tenant_id, k.id, d.days
      from (values (30), (14), (7), (1), (0)) as d (days)
      join keys.api_key as k
        on k.tenant_id = scan.tenant_id
       and k.expires_at > scan.since + pg_catalog.make_interval(days => d.days)
       and k.expires_at <= until + pg_catalog.make_interval(days => d.days)
     where k.revoked_at is null
       and k.created_at <= k.expires_at - pg_catalog.make_interval(days => d.days)
     order by k.expires_at - pg_catalog.make_interval(days => d.days), k.id
        on conflict do nothing;
    update keys.expiry_scan as s set scanned_until = greatest(s.scanned_until, until) where s.tenant_id = scan.tenant_id;
  end loop;
end
$function$;
alter routine keys.note_expiring() owner to postern_keys_definer;
grant execute on routine keys.note_expiring() to postern_keys;

CREATE OR REPLACE FUNCTION keys.note_idle()
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  insert into keys.idle_notice as n (tenant_id, key_id, due_at, days)
  select i.tenant_id, i.id, i.due_at, d.days
    from keys.idle_key as i
   cross join lateral (
           select pg_catalog.min(v.days) as days
             from (values (30), (14), (7), (1)) as v (days)
            where v.days < i.revoke_idle_days
              and i.due_at <= pg_catalog.clock_timestamp() + pg_catalog.make_interval(days => v.days)) as d
   where d.days is not null
   order by i.tenant_id, i.id
      on conflict (tenant_id, key_id) do update
     set due_at = excluded.due_at, days = excluded.days,
         noted_at = case when n.due_at = excluded.due_at then n.noted_at else excluded.noted_at end
   where (n.due_at, n.days) is distinct from (excluded.due_at, excluded.days)
$function$;
alter routine keys.note_idle() owner to postern_keys_definer;
grant execute on routine keys.note_idle() to postern_keys;

CREATE OR REPLACE FUNCTION keys.note_late_usage()
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  update keys.usage_watch as w
     set counted_from = pg_catalog.clock_timestamp()
   where w.counted_from < pg_catalog.clock_timestamp() - interval '10 minutes'
$function$;
alter routine keys.note_late_usage() owner to postern_keys_definer;
grant execute on routine keys.note_late_usage() to postern_keys;

CREATE OR REPLACE FUNCTION keys.note_pending_denials(at_most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  due record;
  noted integer := 0;
begin
  for due in
    select n.tenant_id, n.key_id, n.reason, n.pending, n.pending_addresses
      from keys.api_key_denial as n
     where n.pending > 0
       and n.noted_at <= pg_catalog.clock_timestamp() - interval '1 minute'
     order by n.tenant_id, n.key_id, n.reason
     limit at_most
       for update skip locked
  loop
    perform keys.insert_denials(due.tenant_id, due.key_id, due.reason, due.pending, due.pending_addresses);
    update keys.api_key_denial as n
       set noted_at = pg_catalog.clock_timestamp(), pending = 0, pending_addresses = '{}'
     where n.tenant_id = due.tenant_id and n.key_id = due.key_id and n.reason = due.reason;
    noted := noted + 1;
  end loop;
  return noted;
end
$function$;
alter routine keys.note_pending_denials(integer) owner to postern_keys_definer;
grant execute on routine keys.note_pending_denials(integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.note_people()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  noted text;
begin
  if tg_op = 'INSERT' then
    select pg_catalog.string_agg(pg_catalog.concat_ws(' ', n.tenant_id, pg_catalog.encode(n.hash, 'hex'), 0), ',')
      into noted
      from new_rows as n
     where not (n.is_active and n.is_current);
  else
    select pg_catalog.string_agg(pg_catalog.concat_ws(' ', n.tenant_id, pg_catalog.encode(n.hash, 'hex'),
             (o.is_active and o.is_current)::pg_catalog.int4), ',')
      into noted
      from new_rows as n
      join old_rows as o on o.tenant_id = n.tenant_id and o.hash = n.hash and o.person_id = n.person_id
     where not (n.is_active and n.is_current);
  end if;
  if noted is not null then
    perform pg_catalog.set_config('keys.changed_people', pg_catalog.concat_ws(',',
      nullif(pg_catalog.current_setting('keys.changed_people', true), ''), noted), true);
  end if;
  return null;
end
$function$;
alter routine keys.note_people() owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.note_tenant_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  insert into keys.tenant_event (tenant_id, type, operator, name, key_limit, tenant_limit)
  values (
    new.tenant_id,
    case
      when tg_op = 'INSERT' then 'created'
      when new.status = old.status then 'changed'
      when new.status = 'suspended' then 'suspended'
      else 'resumed'
    end,
    nullif(pg_catalog.left(pg_catalog.current_setting('postern.operator', true), 1000), ''),
    new.name, new.key_limit, new.tenant_limit);
  return null;
end
$function$;
grant execute on routine keys.note_tenant_change() to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.prune_log(up_to bigint, of_server numeric, at_most integer)
 RETURNS TABLE(log_seq bigint, held bigint, server numeric)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with log as (
    select c.seq,
           coalesce((select pg_catalog.min(r.seq) from keys.revocation as r), c.seq + 1) as first,
           extract(epoch from pg_catalog.pg_postmaster_start_time()) as server
      from keys.revocation_seq as c
     where c.single),
  dropped as (
    delete from keys.revocation as r
     where r.seq in (
             select o.seq
               from keys.revocation as o, log
              where o.seq <= up_to
                -- Of a database that was restored in a server that went on, too, the numbers are others.
                and up_to <= log.seq
                and log.server = of_server
              order by o.seq
              limit at_most))
  select log.seq, log.seq - log.first + 1, log.server from log
$function$;
alter routine keys.prune_log(bigint,numeric,integer) owner to postern_keys_definer;
grant execute on routine keys.prune_log(bigint,numeric,integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.prune_refusals(older_than_days integer, at_most integer)
 RETURNS integer
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with today as (
    select (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - older_than_days as first_day),
  addresses as (
    delete from keys.api_key_address_use as u
     using (select o.tenant_id, o.key_id, o.day, o.address
              from keys.api_key_address_use as o
             where o.day < (select first_day from today)
             order by o.day
             limit at_most) as old
     where (u.tenant_id, u.key_id, u.day, u.address) = (old.tenant_id, old.key_id, old.day, old.address)
    returning 1),
  counts as (
    delete from keys.api_key_refusal_count as u
     using (select o.tenant_id, o.key_id, o.day, o.code, o.route, o.address
              from keys.api_key_refusal_count as o
             where o.day < (select first_day from today)
             order by o.day
             limit at_most) as old
     where (u.tenant_id, u.key_id, u.day, u.code, u.route, u.address)
             = (old.tenant_id, old.key_id, old.day, old.code, old.route, old.address)
    returning 1),
  refusals as (
    delete from keys.api_key_refusal as u
     using (select o.tenant_id, o.key_id, o.at, o.request_id
              from keys.api_key_refusal as o
             where o.at < (select first_day from today)::pg_catalog.timestamp at time zone 'UTC'
             order by o.at
             limit at_most) as old
     where (u.tenant_id, u.key_id, u.at, u.request_id) = (old.tenant_id, old.key_id, old.at, old.request_id)
    returning 1)
  select ((select pg_catalog.count(*) from addresses) + (select pg_catalog.count(*) from counts)
            + (select pg_catalog.count(*) from refusals))::pg_catalog.int4
$function$;
alter routine keys.prune_refusals(integer,integer) owner to postern_keys_definer;
grant execute on routine keys.prune_refusals(integer,integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.prune_sign_ins(at_most integer)
 RETURNS integer
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with pruned as (
    delete from keys.sign_in as s
     using (select o.tenant_id, o.person_id, o.reason, o.minute, o.address
              from keys.sign_in as o
             where o.minute < pg_catalog.clock_timestamp() - interval '48 hours'
             order by o.minute
             limit at_most) as old
     where (s.tenant_id, s.person_id, s.reason, s.minute, s.address)
             = (old.tenant_id, old.person_id, old.reason, old.minute, old.address)
    returning 1)
  select pg_catalog.count(*)::pg_catalog.int4 from pruned
$function$;
alter routine keys.prune_sign_ins(integer) owner to postern_keys_definer;
grant execute on routine keys.prune_sign_ins(integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.prune_uses(older_than_days integer, at_most integer)
 RETURNS integer
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with old as (
    select u.tenant_id, u.key_id, u.day, u.route
      from keys.api_key_use as u
     where u.day < (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date - older_than_days
     order by u.day
     limit at_most),
  dropped as (
    delete from keys.api_key_use as u
     using old
     where (u.tenant_id, u.key_id, u.day, u.route) = (old.tenant_id, old.key_id, old.day, old.route)
    returning 1)
  select pg_catalog.count(*)::pg_catalog.int4 from dropped
$function$;
alter routine keys.prune_uses(integer,integer) owner to postern_keys_definer;
grant execute on routine keys.prune_uses(integer,integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.read_grants()
 RETURNS TABLE(gateway uuid, acked bigint, grant_id uuid, released boolean)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select l.gateway, l.acked, l.grant_id, l.released from keys.gateway_lease as l
$function$;
alter routine keys.read_grants() owner to postern_keys_definer;
grant execute on routine keys.read_grants() to postern_keys;

CREATE OR REPLACE FUNCTION keys.read_leases()
 RETURNS TABLE(gateway uuid, acked bigint, live boolean)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select l.gateway, l.acked, l.lease_until > pg_catalog.clock_timestamp()
    from keys.gateway_lease as l
   where l.lease_until > pg_catalog.clock_timestamp() - interval '1 minute'
$function$;
alter routine keys.read_leases() owner to postern_keys_definer;
grant execute on routine keys.read_leases() to postern_keys;

CREATE OR REPLACE FUNCTION keys.record_denials(denials jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  denied record;
  noted record;
  moment pg_catalog.timestamptz;
  counts pg_catalog.jsonb;
begin
  for denied in
    select d.tenant_id, d.key_id, d.reason, pg_catalog.sum(d.attempts)::pg_catalog.int8 as count,
           pg_catalog.jsonb_object_agg(d.address, d.attempts) as addresses,
           (pg_catalog.array_agg(d.address order by d.at desc))[1] as address
      from (select k.tenant_id, k.id as key_id, r.reason, r.address, pg_catalog.sum(r.count) as attempts, pg_catalog.max(r.at) as at
              from pg_catalog.jsonb_to_recordset(denials)
                   as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, reason pg_catalog.text, address pg_catalog.text, at pg_catalog.int8, count pg_catalog.int8)
              join keys.api_key as k on k.tenant_id = r."tenantId" and k.id = r."keyId"
             group by k.tenant_id, k.id, r.reason, r.address) as d
     group by d.tenant_id, d.key_id, d.reason
     order by d.tenant_id, d.key_id, d.reason
  loop
    insert into keys.api_key_denial (tenant_id, key_id, reason, address)
    values (denied.tenant_id, denied.key_id, denied.reason, denied.address)
        on conflict do nothing;
    select n.noted_at, n.pending, n.pending_addresses
      into strict noted
      from keys.api_key_denial as n
     where n.tenant_id = denied.tenant_id
       and n.key_id = denied.key_id
       and n.reason = denied.reason
       for update;
    moment := pg_catalog.clock_timestamp();
    counts := keys.add_counts(noted.pending_addresses, denied.addresses);
    if noted.noted_at <= moment - interval '1 minute' then
      perform keys.insert_denials(denied.tenant_id, denied.key_id, denied.reason, noted.pending + denied.count, counts);
      update keys.api_key_denial as n
         set noted_at = moment, pending = 0, pending_addresses = '{}', address = denied.address
       where n.tenant_id = denied.tenant_id and n.key_id = denied.key_id and n.reason = denied.reason;
    else
      update keys.api_key_denial as n
         set pending = n.pending + denied.count, pending_addresses = counts, address = denied.address
       where n.tenant_id = denied.tenant_id and n.key_id = denied.key_id and n.reason = denied.reason;
    end if;
  end loop;
end
$function$;
alter routine keys.record_denials(jsonb) owner to postern_keys_definer;
grant execute on routine keys.record_denials(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.record_github_report(of_body bytea)
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with old as (
    delete from keys.github_report as r
     where r.received_at < pg_catalog.clock_timestamp() - interval '400 days'),
  made as (
    insert into keys.github_report (digest) values (of_body) on conflict do nothing returning 1)
  select exists (select from made)
$function$;
alter routine keys.record_github_report(bytea) owner to postern_keys_definer;
grant execute on routine keys.record_github_report(bytea) to postern_keys;

CREATE OR REPLACE FUNCTION keys.record_people(people jsonb)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  insert into keys.member as m (tenant_id, id, name, roles, first_seen_at, last_seen_at, directory_hash, left_at)
  select distinct on (t.tenant_id, p.id)
         t.tenant_id, p.id, p.name, p.roles, seen.at, seen.at, named.hash,
         case when tenancy.find_person_status(t.tenant_id, named.hash) = 'inactive' then seen.at end
    from pg_catalog.jsonb_to_recordset(people)
         as p ("tenantId" pg_catalog.uuid, id pg_catalog.text, name pg_catalog.text, roles pg_catalog.text[],
               "lastSeenAt" pg_catalog.int8, directory pg_catalog.text)
    join keys.tenant as t on t.tenant_id = p."tenantId"
   cross join lateral (
           select least(pg_catalog.to_timestamp(p."lastSeenAt" / 1000.0),
                        pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at) as seen
   cross join lateral (select pg_catalog.decode(p.directory, 'hex') as hash) as named
  -- In one order, so that two reports about the same people do not lock each other out.
   order by t.tenant_id, p.id, seen.at desc
      on conflict (tenant_id, id) do update
     set name = excluded.name, roles = excluded.roles, last_seen_at = excluded.last_seen_at,
         directory_hash = excluded.directory_hash,
         left_at = case when excluded.left_at is not null then coalesce(m.left_at, excluded.left_at) end
   where m.last_seen_at < excluded.last_seen_at
$function$;
alter routine keys.record_people(jsonb) owner to postern_keys_definer;
grant execute on routine keys.record_people(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.record_refusals(refusals jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  -- In one order, so that two reports about the same keys do not lock each other out.
  perform
    from keys.api_key as k
   where (k.tenant_id, k.id) in (
           select r."tenantId", r."keyId" from pg_catalog.jsonb_to_recordset(refusals) as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
   order by k.tenant_id, k.id
     for no key update;

  update keys.api_key as k
     set last_refused_at = seen.at
    from (select r."tenantId" as tenant_id, r."keyId" as key_id,
                 least(pg_catalog.max(pg_catalog.to_timestamp(r.at / 1000.0)),
                       pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at
            from pg_catalog.jsonb_to_recordset(refusals) as r ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, at pg_catalog.int8)
           group by r."tenantId", r."keyId") as seen
   where k.tenant_id = seen.tenant_id
     and k.id = seen.key_id
     and (k.last_refused_at is null or k.last_refused_at < seen.at);
end
$function$;
alter routine keys.record_refusals(jsonb) owner to postern_keys_definer;
grant execute on routine keys.record_refusals(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.record_sign_ins(sign_ins jsonb)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with given as (
    select distinct on (t.tenant_id, s.id, s.reason, m.minute, s.address)
           t.tenant_id, t.name as tenant_name, s.id, s.name, coalesce(s.reason, '') as reason, s.address,
           s."requestId" as request_id, m.at, m.minute,
           pg_catalog.date_trunc('day', m.minute, 'UTC') as day
      from pg_catalog.jsonb_to_recordset(sign_ins)
           as s ("tenantId" pg_catalog.uuid, id pg_catalog.text, name pg_catalog.text, reason pg_catalog.text,
                 address pg_catalog.text, at pg_catalog.int8, "requestId" pg_catalog.text)
      join keys.tenant as t on t.tenant_id = s."tenantId"
     cross join lateral (select least(pg_catalog.to_timestamp(s.at / 1000.0), pg_catalog.clock_timestamp()) as at) as told
     cross join lateral (select told.at, pg_catalog.date_trunc('minute', told.at, 'UTC') as minute) as m
     order by t.tenant_id, s.id, s.reason, m.minute, s.address, m.at),
  numbered as (
    select g.*,
           pg_catalog.row_number() over (partition by g.tenant_id, g.id, g.reason, g.day order by g.minute, g.address)
             + (select pg_catalog.count(*)
                  from keys.sign_in as n
                 where n.tenant_id = g.tenant_id and n.person_id = g.id and n.reason = g.reason
                   and n.minute >= g.day and n.minute < g.day + interval '24 hours') as number
      from given as g),
  added as (
    insert into keys.sign_in (tenant_id, person_id, reason, minute, address)
    select n.tenant_id, n.id, n.reason, n.minute, n.address
      from numbered as n
     where n.number <= 100
     order by 1, 2, 3, 4, 5
        on conflict do nothing
    returning tenant_id, person_id, reason, minute, address)
  select tenancy.record_audit_event(
           g.tenant_id, g.at, 'sign_in', case when g.reason = '' then 'sign_in.succeeded' else 'sign_in.failed' end,
           case when g.reason = '' then 'success' else 'failure' end, nullif(g.reason, ''),
           'person', g.id, g.name, 'tenant', g.tenant_id::pg_catalog.text, g.tenant_name, g.address, g.request_id)
    from given as g
    join added as a on (a.tenant_id, a.person_id, a.reason, a.minute, a.address)
                         = (g.tenant_id, g.id, g.reason, g.minute, g.address)
$function$;
alter routine keys.record_sign_ins(jsonb) owner to postern_keys_definer;
grant execute on routine keys.record_sign_ins(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.record_uses(uses jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  -- In one order, so that two reports about the same keys do not lock each other out.
  perform
    from keys.api_key as k
   where (k.tenant_id, k.id) in (
           select u."tenantId", u."keyId" from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
   order by k.tenant_id, k.id
     for no key update;

  update keys.api_key as k
     set last_used_at = seen.at
    from (select u."tenantId" as tenant_id, u."keyId" as key_id,
                 least(pg_catalog.max(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0)),
                       pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp())) as at
            from pg_catalog.jsonb_to_recordset(uses)
                 as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, "lastUsedAt" pg_catalog.int8, routes pg_catalog.jsonb)
           -- Without a route, every request of the line was refused for what it asked.
           where u.routes <> '{}'::pg_catalog.jsonb
           group by u."tenantId", u."keyId") as seen
   where k.tenant_id = seen.tenant_id
     and k.id = seen.key_id
     and (k.last_used_at is null or k.last_used_at < seen.at);

  with seen as (
    select k.tenant_id, k.id as key_id, u.address,
           least(pg_catalog.max(pg_catalog.to_timestamp(u."lastUsedAt" / 1000.0)), pg_catalog.clock_timestamp()) as at
      from pg_catalog.jsonb_to_recordset(uses)
           as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, address pg_catalog.text, "lastUsedAt" pg_catalog.int8)
      join keys.api_key as k on k.tenant_id = u."tenantId" and k.id = u."keyId"
     group by k.tenant_id, k.id, u.address),
  known as (
    update keys.api_key_address as a
       set last_used_at = greatest(a.last_used_at, seen.at)
      from seen
     where a.tenant_id = seen.tenant_id and a.key_id = seen.key_id and a.address = seen.address
    returning a.tenant_id, a.key_id, a.address),
  before as (
    select s.tenant_id, s.key_id,
           (select pg_catalog.count(*) from keys.api_key_address as a where a.tenant_id = s.tenant_id and a.key_id = s.key_id) as held
      from (select distinct seen.tenant_id, seen.key_id from seen) as s),
  fresh as (
    select seen.tenant_id, seen.key_id, seen.address, seen.at, before.held,
           pg_catalog.row_number() over (partition by seen.tenant_id, seen.key_id order by seen.at desc, seen.address) as place
      from seen
      join before on before.tenant_id = seen.tenant_id and before.key_id = seen.key_id
     where not exists (
             select from known
              where known.tenant_id = seen.tenant_id and known.key_id = seen.key_id and known.address = seen.address)),
  -- The newest hundred stay; what a report has beyond them is counted and not kept.
  kept as (
    insert into keys.api_key_address (tenant_id, key_id, address, last_used_at)
    select fresh.tenant_id, fresh.key_id, fresh.address, fresh.at
      from fresh
     where fresh.place <= 100
        on conflict do nothing
    returning tenant_id, key_id, address),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, address)
    select kept.tenant_id, kept.key_id, 'used_from_new_address', kept.address
      from kept
      join fresh on fresh.tenant_id = kept.tenant_id and fresh.key_id = kept.key_id and fresh.address = kept.address
     where fresh.held + fresh.place <= 100 or fresh.place <= 5)
  insert into keys.api_key_address_drop as d (tenant_id, key_id, dropped)
  select fresh.tenant_id, fresh.key_id, pg_catalog.count(*)
    from fresh
   where fresh.place > 100
   group by fresh.tenant_id, fresh.key_id
      on conflict (tenant_id, key_id) do update set dropped = d.dropped + excluded.dropped;

  -- A statement of its own: it sees what the one before has added.
  with placed as (
    select a.tenant_id, a.key_id, a.address,
           pg_catalog.row_number() over (
             partition by a.tenant_id, a.key_id order by a.last_used_at desc, a.first_used_at desc, a.address) as place
      from keys.api_key_address as a
     where (a.tenant_id, a.key_id) in (
             select u."tenantId", u."keyId"
               from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))),
  dropped as (
    delete from keys.api_key_address as a
     using placed
     where placed.place > 100
       and a.tenant_id = placed.tenant_id and a.key_id = placed.key_id and a.address = placed.address
    returning a.tenant_id, a.key_id)
  insert into keys.api_key_address_drop as d (tenant_id, key_id, dropped)
  select dropped.tenant_id, dropped.key_id, pg_catalog.count(*)
    from dropped
   group by dropped.tenant_id, dropped.key_id
      on conflict (tenant_id, key_id) do update set dropped = d.dropped + excluded.dropped;
end
$function$;
alter routine keys.record_uses(jsonb) owner to postern_keys_definer;
grant execute on routine keys.record_uses(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.release_lease(for_gateway uuid)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  update keys.gateway_lease as l
     set released = true,
         lease_until = least(l.lease_until, pg_catalog.clock_timestamp())
   where l.gateway = for_gateway
     and not l.released
$function$;
alter routine keys.release_lease(uuid) owner to postern_keys_definer;
grant execute on routine keys.release_lease(uuid) to postern_keys;

CREATE OR REPLACE FUNCTION keys.review_after_policy()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  insert into keys.policy_review as r (tenant_id)
  values (new.tenant_id)
      on conflict (tenant_id) do update set after_key = excluded.after_key;
  return null;
end
$function$;
alter routine keys.review_after_policy() owner to postern_keys_definer;

CREATE OR REPLACE FUNCTION keys.review_keys(at_most integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  due record;
  stale record;
  ids pg_catalog.uuid[];
  has_reviewed boolean := false;
begin
  for due in
    select d.tenant_id, pg_catalog.array_agg(d.key_id) as ids
      from (select r.tenant_id, r.key_id
              from keys.api_key_review as r
             where r.review_at <= pg_catalog.clock_timestamp()
             order by r.review_at
             limit at_most
               for update skip locked) as d
     group by d.tenant_id
     order by d.tenant_id
  loop
    perform keys.assess_keys(due.tenant_id, due.ids);
    has_reviewed := true;
  end loop;
  if has_reviewed then
    return true;
  end if;

  select r.tenant_id, r.after_key into stale
    from keys.policy_review as r
   order by r.tenant_id
   limit 1
     for update skip locked;
  if not found then
    return false;
  end if;
  select pg_catalog.array_agg(n.id order by n.id) into ids
    from (select k.id
            from keys.api_key as k
           where k.tenant_id = stale.tenant_id
             and k.id > stale.after_key
             and k.revoked_at is null
           order by k.id
           limit at_most) as n;
  if ids is null then
    delete from keys.policy_review as r where r.tenant_id = stale.tenant_id;
    return true;
  end if;
  perform keys.assess_keys(stale.tenant_id, ids);
  update keys.policy_review as r
     set after_key = ids[pg_catalog.cardinality(ids)]
   where r.tenant_id = stale.tenant_id;
  return true;
end
$function$;
alter routine keys.review_keys(integer) owner to postern_keys_definer;
grant execute on routine keys.review_keys(integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.review_new_routes(uses jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  today constant pg_catalog.date := (pg_catalog.clock_timestamp() at time zone 'UTC')::pg_catalog.date;
begin
  with fresh as (
    select distinct u."tenantId" as tenant_id, u."keyId" as key_id
      from pg_catalog.jsonb_to_recordset(uses) as u ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid, routes pg_catalog.jsonb)
     cross join lateral pg_catalog.jsonb_object_keys(u.routes) as r (route)
     where case
             when exists (
                    select
                      from keys.api_key_use as n
                     where (n.tenant_id, n.key_id, n.day, n.route) = (u."tenantId", u."keyId", today, r.route)) then false
             else not exists (
                    select
                      from keys.api_key_use as n
                     where n.tenant_id = u."tenantId"
                       and n.key_id = u."keyId"
                       and n.day > today - 30
                       and n.route = r.route)
           end),
  locked as (
    select r.tenant_id, r.key_id
      from keys.api_key_review as r
      join fresh on fresh.tenant_id = r.tenant_id and fresh.key_id = r.key_id
     order by r.tenant_id, r.key_id
       for update of r)
  update keys.api_key_review as r
     set review_at = least(r.review_at, pg_catalog.clock_timestamp())
    from locked
   where r.tenant_id = locked.tenant_id
     and r.key_id = locked.key_id;
end
$function$;
alter routine keys.review_new_routes(jsonb) owner to postern_keys_definer;
grant execute on routine keys.review_new_routes(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.review_refused(refusals jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  with locked as (
    select r.tenant_id, r.key_id
      from keys.api_key_review as r
     where (r.tenant_id, r.key_id) in (
             select c."tenantId", c."keyId"
               from pg_catalog.jsonb_to_recordset(refusals) as c ("tenantId" pg_catalog.uuid, "keyId" pg_catalog.uuid))
       and r.review_at > pg_catalog.clock_timestamp() + interval '1 minute'
       and not exists (
             select
               from keys.api_key_health as h
              where (h.tenant_id, h.key_id, h.reason) = (r.tenant_id, r.key_id, 'refused_often'))
     order by r.tenant_id, r.key_id
       for update of r)
  update keys.api_key_review as r
     set review_at = pg_catalog.clock_timestamp() + interval '1 minute'
    from locked
   where r.tenant_id = locked.tenant_id
     and r.key_id = locked.key_id;
end
$function$;
alter routine keys.review_refused(jsonb) owner to postern_keys_definer;
grant execute on routine keys.review_refused(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.revoke_idle_keys(at_most integer)
 RETURNS TABLE(tenant_id uuid, id uuid, hash bytea)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with due as (
    select k.tenant_id, k.id, i.revoke_idle_days
      from keys.idle_notice as n
      join keys.idle_key as i on i.tenant_id = n.tenant_id and i.id = n.key_id and i.due_at = n.due_at
      join keys.api_key as k on k.tenant_id = n.tenant_id and k.id = n.key_id
     where n.due_at <= pg_catalog.clock_timestamp() - interval '1 day'
       and n.noted_at <= pg_catalog.clock_timestamp() - interval '1 day'
     order by k.tenant_id, k.id
     limit at_most
       for no key update of k),
  -- Another statement may have used the key before it was locked.
  revoked as (
    update keys.api_key as k
       set revoked_at = pg_catalog.clock_timestamp(), revoked_by_type = 'policy', revoked_by_id = 'revoke_idle_days',
           revoked_by_label = 'Key policy',
           revoke_reason = pg_catalog.format('Not used for %s days', due.revoke_idle_days)
      from due
     where k.tenant_id = due.tenant_id
       and k.id = due.id
       and k.revoked_at is null
       and coalesce(k.last_used_at, '-infinity') <= pg_catalog.clock_timestamp() - (due.revoke_idle_days + 1) * interval '24 hours'
    returning k.tenant_id, k.id, k.hash, k.revoked_by_type, k.revoked_by_id, k.revoked_by_label, k.revoke_reason),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, detail)
    select v.tenant_id, v.id, 'revoked', v.revoked_by_type, v.revoked_by_id, v.revoked_by_label,
           pg_catalog.jsonb_build_object('reason', v.revoke_reason)
      from revoked as v)
  select v.tenant_id, v.id, v.hash from revoked as v
$function$;
alter routine keys.revoke_idle_keys(integer) owner to postern_keys_definer;
grant execute on routine keys.revoke_idle_keys(integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.revoke_leaked_keys(hashes bytea[], details jsonb[], reporter_id text, reporter_label text, reporter_address text)
 RETURNS TABLE(hash bytea, id uuid, tenant_id uuid, revoked_now boolean)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with reported as (
    select r.hash, r.detail
      from rows from (pg_catalog.unnest(hashes), pg_catalog.unnest(details)) as r (hash, detail)),
  -- In one order, so that two reports of the same keys do not lock each other out.
  known as (
    select k.tenant_id, k.id, k.hash, k.revoked_at
      from keys.api_key as k
     where k.hash in (select r.hash from reported as r)
     order by k.tenant_id, k.id
       for no key update),
  revoked as (
    update keys.api_key as k
       set revoked_at = pg_catalog.clock_timestamp(), revoked_by_type = 'reporter', revoked_by_id = reporter_id,
           revoked_by_label = reporter_label, revoke_reason = 'Reported as leaked'
      from known
     where k.tenant_id = known.tenant_id
       and k.id = known.id
       and known.revoked_at is null
    returning k.tenant_id, k.id, k.hash, k.revoke_reason),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, actor_type, actor_id, actor_label, address, detail)
    select v.tenant_id, v.id, 'revoked', 'reporter', reporter_id, reporter_label, reporter_address,
           pg_catalog.jsonb_build_object('reason', v.revoke_reason) operator(pg_catalog.||) r.detail
      from revoked as v
      join reported as r on r.hash = v.hash)
  select known.hash, known.id, known.tenant_id, v.id is not null
    from known
    left join revoked as v on v.tenant_id = known.tenant_id and v.id = known.id
$function$;
alter routine keys.revoke_leaked_keys(bytea[],jsonb[],text,text,text) owner to postern_keys_definer;
grant execute on routine keys.revoke_leaked_keys(bytea[],jsonb[],text,text,text) to postern_keys;

CREATE OR REPLACE FUNCTION keys.set_audit_retention()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  perform tenancy.set_audit_retention(new.tenant_id, new.audit_retention_days);
  return null;
end
$function$;
alter routine keys.set_audit_retention() owner to postern_keys_definer;
grant execute on routine keys.set_audit_retention() to postern_owner;

CREATE OR REPLACE FUNCTION keys.set_routes(routes jsonb)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  insert into keys.route as r (id, scopes)
  select n.id, n.scopes
    from pg_catalog.jsonb_to_recordset(routes) as n (id pg_catalog.text, scopes pg_catalog.text[])
   order by n.id
      on conflict (id) do update set scopes = excluded.scopes
   where r.scopes <> excluded.scopes
$function$;
alter routine keys.set_routes(jsonb) owner to postern_keys_definer;
grant execute on routine keys.set_routes(jsonb) to postern_keys;

CREATE OR REPLACE FUNCTION keys.start_overlaps(at_most integer)
 RETURNS TABLE(tenant_id uuid, id uuid, hash bytea)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  with due as (
    select k.tenant_id, k.id, k.expires_at, p.successor_id, p.overlap,
           pg_catalog.date_trunc('milliseconds', pg_catalog.clock_timestamp()) + pg_catalog.make_interval(secs =>
             pg_catalog.left(p.overlap, -1)::pg_catalog.int4 * case pg_catalog.right(p.overlap, 1)
               when 's' then 1 when 'm' then 60 when 'h' then 3600 else 86400 end) as ends_at
      from keys.pending_overlap as p
      join keys.api_key as s on s.tenant_id = p.tenant_id and s.id = p.successor_id
      join keys.api_key as k on k.tenant_id = p.tenant_id and k.id = p.key_id
     where s.last_used_at is not null
       and s.revoked_at is null
       and s.expires_at > pg_catalog.clock_timestamp()
       and k.revoked_at is null
       and k.expires_at > pg_catalog.clock_timestamp()
     order by k.tenant_id, k.id
     limit at_most
       for no key update of k, p skip locked),
  begun as (
    delete from keys.pending_overlap as p
     using due
     where p.tenant_id = due.tenant_id
       and p.key_id = due.id),
  shortened as (
    update keys.api_key as k
       set expires_at = due.ends_at
      from due
     where k.tenant_id = due.tenant_id
       and k.id = due.id
       and k.expires_at > due.ends_at
    returning k.tenant_id, k.id, k.hash, due.expires_at as ended_at, due.ends_at, due.successor_id, due.overlap),
  noted as (
    insert into keys.api_key_event (tenant_id, key_id, type, detail)
    select v.tenant_id, v.id, 'updated',
           pg_catalog.jsonb_build_object(
             'reason', 'The new key was first used', 'rotated_to', v.successor_id, 'overlap', v.overlap,
             'changes', pg_catalog.jsonb_build_object('expires_at', pg_catalog.jsonb_build_object(
               'from', pg_catalog.to_char(v.ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'to', pg_catalog.to_char(v.ends_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))))
      from shortened as v)
  select v.tenant_id, v.id, v.hash from shortened as v
$function$;
alter routine keys.start_overlaps(integer) owner to postern_keys_definer;
grant execute on routine keys.start_overlaps(integer) to postern_keys;

CREATE OR REPLACE FUNCTION keys.update_tenant(id_or_slug text, new_status text, new_name text, new_key_limit integer, new_tenant_limit integer, by_operator text)
 RETURNS TABLE(id uuid, slug text, name text, status text, key_limit integer, tenant_limit integer, version integer, created_at timestamp with time zone)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  found_id pg_catalog.uuid;
begin
  perform tenancy.assert_operator();
  perform pg_catalog.set_config('postern.operator', by_operator, true);
  select t.tenant_id into found_id from keys.tenant as t where id_or_slug in (t.tenant_id::pg_catalog.text, t.slug) for update;
  update keys.tenant as t
     set status = coalesce(new_status, t.status),
         name = coalesce(new_name, t.name),
         key_limit = coalesce(new_key_limit, t.key_limit),
         tenant_limit = coalesce(new_tenant_limit, t.tenant_limit)
   where t.tenant_id = found_id
     and (t.status, t.name, t.key_limit, t.tenant_limit) is distinct from
         (coalesce(new_status, t.status), coalesce(new_name, t.name), coalesce(new_key_limit, t.key_limit), coalesce(new_tenant_limit, t.tenant_limit));
  return query
    select t.tenant_id, t.slug, t.name, t.status, t.key_limit, t.tenant_limit, t.version, t.created_at
      from keys.tenant as t where t.tenant_id = found_id;
end
$function$;
alter routine keys.update_tenant(text,text,text,integer,integer,text) owner to postern_keys_definer;
grant execute on routine keys.update_tenant(text,text,text,integer,integer,text) to postern_keys;

CREATE OR REPLACE FUNCTION keys.watch_usage()
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  update keys.usage_watch as w
     set counted_from = case
           when w.seen_at < pg_catalog.clock_timestamp() - interval '1 hour' then pg_catalog.clock_timestamp()
           else w.counted_from end,
         seen_at = greatest(w.seen_at, pg_catalog.clock_timestamp())
$function$;
alter routine keys.watch_usage() owner to postern_keys_definer;
grant execute on routine keys.watch_usage() to postern_keys;
