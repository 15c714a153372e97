create schema tenancy authorization postern_owner;
grant usage on schema tenancy to postern_evidence;
grant usage on schema tenancy to postern_findings;
grant usage on schema tenancy to postern_findings_definer;
grant usage on schema tenancy to postern_keys;
grant usage on schema tenancy to postern_keys_definer;
grant usage on schema tenancy to postern_sync;
grant usage on schema tenancy to postern_tenancy;
grant usage on schema tenancy to postern_universe;

create table tenancy.assertion_secret (
  key_id text not null,
  secret bytea not null,
  inner_pad bytea not null generated always as (tenancy.hmac_pad(secret, 54)) stored,
  outer_pad bytea not null generated always as (tenancy.hmac_pad(secret, 92)) stored,
  created_at timestamp with time zone not null default now(),
  not_after timestamp with time zone,
  constraint assertion_secret_pk PRIMARY KEY (key_id),
  constraint assertion_secret_key_id_format CHECK ((key_id ~ '^[A-Za-z0-9_-]{1,32}$'::text)),
  constraint assertion_secret_length CHECK (((octet_length(secret) >= 32) AND (octet_length(secret) <= 64)))
);
grant select (key_id) on table tenancy.assertion_secret to postern_tenancy;
grant select (inner_pad) on table tenancy.assertion_secret to postern_tenancy;
grant select (outer_pad) on table tenancy.assertion_secret to postern_tenancy;
grant select (created_at) on table tenancy.assertion_secret to postern_tenancy;
grant select (not_after) on table tenancy.assertion_secret to postern_tenancy;

create table tenancy.audit_event (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  at timestamp(3) with time zone not null default clock_timestamp(),
  category text not null,
  action text not null,
  outcome text not null default 'success'::text,
  reason text,
  actor_type text not null,
  actor_id text,
  actor_name text,
  resource_type text not null,
  resource_id text,
  resource_name text,
  source_ip text,
  request_id text,
  ended_at pg_lsn,
  "position" bigint,
  constraint audit_event_pk PRIMARY KEY (tenant_id, id),
  constraint audit_event_position_unique UNIQUE (tenant_id, "position"),
  constraint audit_event_action_form CHECK ((action ~ '^[a-z_]{1,40}\.[a-z_]{1,40}$'::text)),
  constraint audit_event_actor_type_known CHECK ((actor_type = ANY (ARRAY['person'::text, 'machine'::text, 'key'::text, 'operator'::text, 'system'::text, 'policy'::text]))),
  constraint audit_event_category_known CHECK ((category = ANY (ARRAY['key'::text, 'key_policy'::text, 'evidence'::text, 'connector'::text, 'webhook'::text, 'directory'::text, 'tenant'::text, 'sign_in'::text]))),
  constraint audit_event_outcome_known CHECK ((outcome = ANY (ARRAY['success'::text, 'failure'::text]))),
  constraint audit_event_short CHECK ((octet_length(concat(reason, actor_id, actor_name, resource_type, resource_id, resource_name, source_ip, request_id)) <= 20000))
);
CREATE INDEX audit_event_by_time ON tenancy.audit_event USING btree (tenant_id, at);
CREATE INDEX audit_event_of_resource ON tenancy.audit_event USING btree (tenant_id, resource_id, "position");
CREATE INDEX audit_event_unplaced ON tenancy.audit_event USING btree (tenant_id, ended_at, id) WHERE (ended_at IS NOT NULL);
CREATE CONSTRAINT TRIGGER end_audit_event AFTER INSERT ON tenancy.audit_event DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tenancy.end_audit_event();
CREATE TRIGGER names_system_actor BEFORE INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.actor_type = 'system'::text)) EXECUTE FUNCTION tenancy.name_system_actor();
CREATE TRIGGER notes_connector AFTER INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.category = 'connector'::text)) EXECUTE FUNCTION tenancy.note_event('id', 'audit.connector');
CREATE TRIGGER notes_directory AFTER INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.category = 'directory'::text)) EXECUTE FUNCTION tenancy.note_event('id', 'audit.directory');
CREATE TRIGGER notes_evidence AFTER INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.category = 'evidence'::text)) EXECUTE FUNCTION tenancy.note_event('id', 'audit.evidence');
CREATE TRIGGER notes_key AFTER INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.category = 'key'::text)) EXECUTE FUNCTION tenancy.note_event('id', 'audit.key');
CREATE TRIGGER notes_key_policy AFTER INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.category = 'key_policy'::text)) EXECUTE FUNCTION tenancy.note_event('id', 'audit.key_policy');
CREATE TRIGGER notes_sign_in AFTER INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.category = 'sign_in'::text)) EXECUTE FUNCTION tenancy.note_event('id', 'audit.sign_in');
CREATE TRIGGER notes_tenant AFTER INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.category = 'tenant'::text)) EXECUTE FUNCTION tenancy.note_event('id', 'audit.tenant');
CREATE TRIGGER notes_webhook AFTER INSERT ON tenancy.audit_event FOR EACH ROW WHEN ((new.category = 'webhook'::text)) EXECUTE FUNCTION tenancy.note_event('id', 'audit.webhook');
alter table tenancy.audit_event enable row level security;
alter table tenancy.audit_event force row level security;
create policy postern_evidence_insert on tenancy.audit_event as permissive for insert to postern_evidence with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_keys_select on tenancy.audit_event as permissive for select to postern_keys using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on tenancy.audit_event as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_tenancy_delete on tenancy.audit_event as permissive for delete to postern_tenancy using (true);
create policy postern_tenancy_insert on tenancy.audit_event as permissive for insert to postern_tenancy with check (true);
create policy postern_tenancy_select on tenancy.audit_event as permissive for select to postern_tenancy using (true);
create policy postern_tenancy_update on tenancy.audit_event as permissive for update to postern_tenancy using (true) with check (true);
create policy tenant_only on tenancy.audit_event as restrictive for all to postern_evidence, postern_keys, postern_owner, postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table tenancy.audit_event to postern_keys;
grant delete, insert, select, update on table tenancy.audit_event to postern_tenancy;
grant insert (tenant_id) on table tenancy.audit_event to postern_evidence;
grant insert (at) on table tenancy.audit_event to postern_evidence;
grant insert (category) on table tenancy.audit_event to postern_evidence;
grant insert (action) on table tenancy.audit_event to postern_evidence;
grant insert (outcome) on table tenancy.audit_event to postern_evidence;
grant insert (reason) on table tenancy.audit_event to postern_evidence;
grant insert (actor_type) on table tenancy.audit_event to postern_evidence;
grant insert (actor_id) on table tenancy.audit_event to postern_evidence;
grant insert (actor_name) on table tenancy.audit_event to postern_evidence;
grant insert (resource_type) on table tenancy.audit_event to postern_evidence;
grant insert (resource_id) on table tenancy.audit_event to postern_evidence;
grant insert (resource_name) on table tenancy.audit_event to postern_evidence;
grant insert (source_ip) on table tenancy.audit_event to postern_evidence;
grant insert (request_id) on table tenancy.audit_event to postern_evidence;
grant insert (tenant_id) on table tenancy.audit_event to postern_sync;
grant insert (at) on table tenancy.audit_event to postern_sync;
grant insert (category) on table tenancy.audit_event to postern_sync;
grant insert (action) on table tenancy.audit_event to postern_sync;
grant insert (outcome) on table tenancy.audit_event to postern_sync;
grant insert (reason) on table tenancy.audit_event to postern_sync;
grant insert (actor_type) on table tenancy.audit_event to postern_sync;
grant insert (actor_id) on table tenancy.audit_event to postern_sync;
grant insert (actor_name) on table tenancy.audit_event to postern_sync;
grant insert (resource_type) on table tenancy.audit_event to postern_sync;
grant insert (resource_id) on table tenancy.audit_event to postern_sync;
grant insert (resource_name) on table tenancy.audit_event to postern_sync;
grant insert (source_ip) on table tenancy.audit_event to postern_sync;
grant insert (request_id) on table tenancy.audit_event to postern_sync;

create table tenancy.audit_head (
  tenant_id uuid not null,
  last_position bigint not null,
  retention_days integer not null default 400,
  constraint audit_head_pk PRIMARY KEY (tenant_id),
  constraint audit_head_not_negative CHECK ((last_position >= 0)),
  constraint audit_head_retention_days_range CHECK (((retention_days >= 90) AND (retention_days <= 3650)))
);
alter table tenancy.audit_head enable row level security;
alter table tenancy.audit_head force row level security;
create policy postern_tenancy_insert on tenancy.audit_head as permissive for insert to postern_tenancy with check (true);
create policy postern_tenancy_select on tenancy.audit_head as permissive for select to postern_tenancy using (true);
create policy postern_tenancy_update on tenancy.audit_head as permissive for update to postern_tenancy using (true) with check (true);
create policy tenant_only on tenancy.audit_head as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table tenancy.audit_head to postern_tenancy;

create table tenancy.change (
  tenant_id uuid not null,
  batch_id uuid not null,
  ordinal integer not null,
  kind text not null,
  resource_id uuid not null,
  change text not null,
  version integer,
  event text,
  constraint change_pk PRIMARY KEY (tenant_id, batch_id, ordinal),
  constraint change_known CHECK ((change = ANY (ARRAY['created'::text, 'updated'::text, 'deleted'::text])))
);
alter table tenancy.change enable row level security;
alter table tenancy.change force row level security;
create policy postern_findings_select on tenancy.change as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on tenancy.change as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_tenancy_delete on tenancy.change as permissive for delete to postern_tenancy using (true);
create policy postern_tenancy_insert on tenancy.change as permissive for insert to postern_tenancy with check (true);
create policy postern_tenancy_select on tenancy.change as permissive for select to postern_tenancy using (true);
create policy tenant_only on tenancy.change as restrictive for all to postern_findings, postern_owner, postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table tenancy.change to postern_findings;
grant select on table tenancy.change to postern_sync;
grant delete, insert, select on table tenancy.change to postern_tenancy;

create table tenancy.change_batch (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  made_by xid8,
  "position" bigint,
  committed_at timestamp(3) with time zone,
  ended_at pg_lsn,
  began_at timestamp(3) with time zone not null default now(),
  constraint change_batch_pk PRIMARY KEY (tenant_id, id),
  constraint change_batch_position_unique UNIQUE (tenant_id, "position"),
  constraint change_batch_ends CHECK ((((made_by IS NULL) = (committed_at IS NOT NULL)) AND ((("position" IS NOT NULL) OR (ended_at IS NOT NULL)) = (made_by IS NULL))))
);
CREATE UNIQUE INDEX change_batch_open ON tenancy.change_batch USING btree (tenant_id, made_by) WHERE (made_by IS NOT NULL);
CREATE INDEX change_batch_unplaced ON tenancy.change_batch USING btree (tenant_id, ended_at) WHERE (ended_at IS NOT NULL);
CREATE CONSTRAINT TRIGGER end_changes AFTER INSERT ON tenancy.change_batch DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tenancy.end_changes();
alter table tenancy.change_batch enable row level security;
alter table tenancy.change_batch force row level security;
create policy postern_findings_select on tenancy.change_batch as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on tenancy.change_batch as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_tenancy_delete on tenancy.change_batch as permissive for delete to postern_tenancy using (true);
create policy postern_tenancy_insert on tenancy.change_batch as permissive for insert to postern_tenancy with check (true);
create policy postern_tenancy_select on tenancy.change_batch as permissive for select to postern_tenancy using (true);
create policy postern_tenancy_update on tenancy.change_batch as permissive for update to postern_tenancy using (true) with check (true);
create policy postern_universe_select on tenancy.change_batch as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on tenancy.change_batch as restrictive for all to postern_findings, postern_owner, postern_sync, postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table tenancy.change_batch to postern_findings;
grant select on table tenancy.change_batch to postern_sync;
grant delete, insert, select, update on table tenancy.change_batch to postern_tenancy;
grant select on table tenancy.change_batch to postern_universe;

create table tenancy.change_head (
  tenant_id uuid not null,
  last_position bigint not null,
  pruned_position bigint not null default 0,
  constraint change_head_pk PRIMARY KEY (tenant_id),
  constraint change_head_in_order CHECK (((pruned_position >= 0) AND (pruned_position <= last_position)))
);
alter table tenancy.change_head enable row level security;
alter table tenancy.change_head force row level security;
create policy postern_findings_select on tenancy.change_head as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on tenancy.change_head as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_tenancy_insert on tenancy.change_head as permissive for insert to postern_tenancy with check (true);
create policy postern_tenancy_select on tenancy.change_head as permissive for select to postern_tenancy using (true);
create policy postern_tenancy_update on tenancy.change_head as permissive for update to postern_tenancy using (true) with check (true);
create policy postern_universe_select on tenancy.change_head as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on tenancy.change_head as restrictive for all to postern_findings, postern_owner, postern_sync, postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant select on table tenancy.change_head to postern_findings;
grant select on table tenancy.change_head to postern_sync;
grant insert, select, update on table tenancy.change_head to postern_tenancy;
grant select on table tenancy.change_head to postern_universe;

create table tenancy.directory_name (
  tenant_id uuid not null,
  hash bytea not null,
  person_id uuid not null,
  is_active boolean not null,
  is_current boolean not null,
  source text not null default 'scim'::text,
  constraint directory_name_pk PRIMARY KEY (tenant_id, hash, person_id),
  constraint directory_name_hash_length CHECK ((octet_length(hash) = 32)),
  constraint directory_name_source_known CHECK ((source = ANY (ARRAY['scim'::text, 'people'::text])))
);
CREATE INDEX directory_name_of_person ON tenancy.directory_name USING btree (tenant_id, person_id);
CREATE CONSTRAINT TRIGGER directory_name_change_is_logged AFTER INSERT OR UPDATE ON tenancy.directory_name DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((NOT (new.is_active AND new.is_current))) EXECUTE FUNCTION keys.log_people();
CREATE TRIGGER directory_name_marks_leavers AFTER INSERT OR UPDATE ON tenancy.directory_name FOR EACH ROW EXECUTE FUNCTION keys.mark_leavers();
CREATE TRIGGER directory_name_notes_changed AFTER UPDATE ON tenancy.directory_name REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keys.note_people();
CREATE TRIGGER directory_name_notes_new AFTER INSERT ON tenancy.directory_name REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keys.note_people();
alter table tenancy.directory_name enable row level security;
alter table tenancy.directory_name force row level security;
create policy postern_sync_insert on tenancy.directory_name as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on tenancy.directory_name as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_update on tenancy.directory_name as permissive for update to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_tenancy_select on tenancy.directory_name as permissive for select to postern_tenancy using (true);
create policy postern_universe_insert on tenancy.directory_name as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on tenancy.directory_name as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on tenancy.directory_name as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on tenancy.directory_name as restrictive for all to postern_owner, postern_sync, postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table tenancy.directory_name to postern_sync;
grant select on table tenancy.directory_name to postern_tenancy;
grant insert, select, update on table tenancy.directory_name to postern_universe;
comment on table tenancy.directory_name is 'Rows are never deleted: a token may hold a name that its person had before.';
comment on column tenancy.directory_name.is_current is 'Whether the person still has the name. A former name counts if nobody has it.';
comment on column tenancy.directory_name.source is 'scim: an identity provider. people: connectors that are authoritative.';

create table tenancy.event_reader (
  tenant_id uuid not null,
  since timestamp with time zone not null default now(),
  constraint event_reader_pk PRIMARY KEY (tenant_id)
);
alter table tenancy.event_reader enable row level security;
alter table tenancy.event_reader force row level security;
create policy postern_sync_delete on tenancy.event_reader as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on tenancy.event_reader as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on tenancy.event_reader as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_tenancy_select on tenancy.event_reader as permissive for select to postern_tenancy using (true);
create policy tenant_only on tenancy.event_reader as restrictive for all to postern_owner, postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table tenancy.event_reader to postern_sync;
grant select on table tenancy.event_reader to postern_tenancy;

create table tenancy.granted_work (
  tenant_id uuid not null,
  work_id uuid not null,
  holder uuid,
  granted_at timestamp with time zone not null default now(),
  constraint granted_work_pk PRIMARY KEY (tenant_id, work_id),
  constraint granted_work_id_unique UNIQUE (work_id)
);
alter table tenancy.granted_work enable row level security;
alter table tenancy.granted_work force row level security;
create policy postern_sync_delete on tenancy.granted_work as permissive for delete to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_insert on tenancy.granted_work as permissive for insert to postern_sync with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_sync_select on tenancy.granted_work as permissive for select to postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_tenancy_select on tenancy.granted_work as permissive for select to postern_tenancy using (true);
create policy postern_tenancy_update on tenancy.granted_work as permissive for update to postern_tenancy using (true) with check (true);
create policy tenant_only on tenancy.granted_work as restrictive for all to postern_owner, postern_sync using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table tenancy.granted_work to postern_sync;
grant select, update on table tenancy.granted_work to postern_tenancy;

create table tenancy.link_count (
  tenant_id uuid not null,
  kind text not null,
  resource_id uuid not null,
  links integer not null,
  constraint link_count_pk PRIMARY KEY (tenant_id, kind, resource_id),
  constraint link_count_positive CHECK ((links > 0))
);
alter table tenancy.link_count enable row level security;
alter table tenancy.link_count force row level security;
create policy postern_tenancy_insert on tenancy.link_count as permissive for insert to postern_tenancy with check (true);
create policy postern_tenancy_select on tenancy.link_count as permissive for select to postern_tenancy using (true);
create policy postern_tenancy_update on tenancy.link_count as permissive for update to postern_tenancy using (true) with check (true);
create policy postern_universe_select on tenancy.link_count as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on tenancy.link_count as restrictive for all to postern_owner, postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table tenancy.link_count to postern_tenancy;
grant select on table tenancy.link_count to postern_universe;

create table tenancy.suspended_tenant (
  tenant_id uuid not null,
  since timestamp with time zone not null default now(),
  constraint suspended_tenant_pk PRIMARY KEY (tenant_id)
);
alter table tenancy.suspended_tenant enable row level security;
alter table tenancy.suspended_tenant force row level security;
create policy postern_tenancy_delete on tenancy.suspended_tenant as permissive for delete to postern_tenancy using (true);
create policy postern_tenancy_insert on tenancy.suspended_tenant as permissive for insert to postern_tenancy with check (true);
create policy postern_tenancy_select on tenancy.suspended_tenant as permissive for select to postern_tenancy using (true);
create policy tenant_only on tenancy.suspended_tenant as restrictive for all to postern_owner using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table tenancy.suspended_tenant to postern_tenancy;

CREATE OR REPLACE PROCEDURE tenancy.admit_definer(IN protected regclass, IN definer name, IN commands text[])
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
begin
  perform tenancy.assert_definer(definer);
  call tenancy.set_access(protected, definer, commands, 'true');
  perform
    from pg_catalog.pg_attribute as a
   where a.attrelid = protected
     and a.attname = 'tenant_id'
     and not a.attisdropped;
  if found then
    call tenancy.restrict_to_tenant(protected);
  end if;
end
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.assert_definer(definer name)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO ''
AS $function$
begin
  perform
    from pg_catalog.pg_roles as r
   where r.rolname = definer
     and not r.rolcanlogin
     and not r.rolsuper
     and not r.rolbypassrls;
  if not found then
    raise exception '% is not a role that can be a definer: nologin, nosuperuser, nobypassrls', definer;
  end if;
end
$function$;

CREATE OR REPLACE FUNCTION tenancy.assert_operator()
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  assertion constant pg_catalog.text := pg_catalog.current_setting('postern.assertion', true);
  inner_pad pg_catalog.bytea;
  outer_pad pg_catalog.bytea;
begin
  select s.inner_pad, s.outer_pad
    into inner_pad, outer_pad
    from tenancy.assertion_secret as s
   where s.key_id = pg_catalog.split_part(assertion, '.', 2)
     and (s.not_after is null or s.not_after > pg_catalog.statement_timestamp());
  if tenancy.is_valid(assertion, inner_pad, outer_pad)
     and pg_catalog.split_part(assertion, '.', 3) = '00000000-0000-0000-0000-000000000000' then
    return true;
  end if;
  raise exception using errcode = '28000', message = 'tenant assertion refused';
end
$function$;
alter routine tenancy.assert_operator() owner to postern_tenancy;
grant execute on routine tenancy.assert_operator() to postern_keys;
grant execute on routine tenancy.assert_operator() to postern_keys_definer;

CREATE OR REPLACE FUNCTION tenancy.audit_actor_type(trail_type text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO ''
AS $function$
  select case trail_type
    when 'user' then 'person'
    when 'machine' then 'machine'
    when 'api_key' then 'key'
    when 'operator' then 'operator'
    when 'policy' then 'policy'
    else 'system'
  end
$function$;
grant execute on routine tenancy.audit_actor_type(text) to postern_evidence;
grant execute on routine tenancy.audit_actor_type(text) to postern_keys_definer;
grant execute on routine tenancy.audit_actor_type(text) to postern_sync;
grant execute on routine tenancy.audit_actor_type(text) to postern_tenancy;

CREATE OR REPLACE PROCEDURE tenancy.count_links(IN counted regclass, IN kind text, IN id_column name)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
begin
  execute pg_catalog.format('create trigger count_new_links after insert on %s referencing new table as new_rows '
    'for each statement execute function tenancy.count_new_links(%L, %L)', counted, kind, id_column);
end
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.count_new_links()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  execute pg_catalog.format($dml$
    insert into tenancy.link_count as c (tenant_id, kind, resource_id, links)
    select r.tenant_id, $1, r.%1$I::pg_catalog.uuid, pg_catalog.count(*)
      from new_rows as r
     where r.%1$I ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
     group by r.tenant_id, r.%1$I
     order by r.tenant_id, r.%1$I
    on conflict (tenant_id, kind, resource_id) do update
       set links = c.links + excluded.links$dml$, tg_argv[1])
    using tg_argv[0];
  return null;
end
$function$;
alter routine tenancy.count_new_links() owner to postern_tenancy;
grant execute on routine tenancy.count_new_links() to postern_owner;

CREATE OR REPLACE PROCEDURE tenancy.create_idempotency_table(IN schema_name name, IN runtime name)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
declare
  record_table constant pg_catalog.text := pg_catalog.format('%I.idempotency_record', schema_name);
begin
  execute pg_catalog.format($ddl$
    create table %s (
      tenant_id uuid not null,
      slot bytea not null,
      fingerprint bytea not null,
      claim_id uuid not null,
      claimed_at timestamptz not null default now(),
      answer text,
      constraint idempotency_record_pk primary key (tenant_id, slot),
      constraint idempotency_record_slot_is_hash check (octet_length(slot) = 32),
      constraint idempotency_record_fingerprint_is_hash check (octet_length(fingerprint) = 32)
    )$ddl$, record_table);
  execute pg_catalog.format('comment on table %s is %L', record_table,
    'Requests with an Idempotency-Key, kept for a day. Without an answer: under way, or its process has died.');
  execute pg_catalog.format('comment on column %s.slot is %L', record_table,
    'SHA-256 over principal, route and key: what a client has written is not kept.');
  execute pg_catalog.format('comment on column %s.fingerprint is %L', record_table,
    'SHA-256 over what the request said: another one under the same key is told from a repetition.');
  execute pg_catalog.format('comment on column %s.claim_id is %L', record_table,
    'Who may write the answer. It changes when the request is taken over.');
  -- Serves the removal of what is older than a day.
  execute pg_catalog.format(
    'create index idempotency_record_by_claimed_at on %s (tenant_id, claimed_at)', record_table);
  call tenancy.protect_table(
    record_table::pg_catalog.regclass, runtime, array['select', 'insert', 'update', 'delete']);
end
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.end_audit_event()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  update tenancy.audit_event as e
     set ended_at = pg_catalog.pg_current_wal_insert_lsn()
   where e.tenant_id = new.tenant_id
     and e.id = new.id;
  return null;
end
$function$;
alter routine tenancy.end_audit_event() owner to postern_tenancy;
grant execute on routine tenancy.end_audit_event() to postern_owner;

CREATE OR REPLACE FUNCTION tenancy.end_changes()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  oldest pg_catalog.timestamptz;
begin
  update tenancy.change_batch as b
     set made_by = null,
         ended_at = pg_catalog.pg_current_wal_insert_lsn(),
         committed_at = pg_catalog.clock_timestamp()
   where b.tenant_id = new.tenant_id
     and b.id = new.id;

  -- Where nobody reads the feed, a commit places what has waited for a minute, unless another one does so already.
  -- change_batch_unplaced
  select b.committed_at
    into oldest
    from tenancy.change_batch as b
   where b.tenant_id = new.tenant_id
     and b.ended_at is not null
   order by b.ended_at
   limit 1;
  if oldest < pg_catalog.clock_timestamp() - interval '1 minute'
    and pg_catalog.pg_try_advisory_xact_lock(
      pg_catalog.hashtextextended('tenancy.change ' || new.tenant_id::pg_catalog.text, 0))
  then
    perform tenancy.place_changes(new.tenant_id, 500);
  end if;
  return null;
end
$function$;
alter routine tenancy.end_changes() owner to postern_tenancy;

CREATE OR REPLACE FUNCTION tenancy.find_person_status(tenant uuid, name_hash bytea)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select case
           when pg_catalog.bool_or(s.is_current and not s.has_active) then 'inactive'
           when pg_catalog.bool_or(s.is_current) then 'active'
           when pg_catalog.bool_and(not s.has_active) then 'inactive'
           else 'unknown'
         end
    from (select n.is_current, pg_catalog.bool_or(n.is_active) as has_active
            from tenancy.directory_name as n
           where n.tenant_id = tenant
             and n.hash = name_hash
           group by n.source, n.is_current) as s
$function$;
alter routine tenancy.find_person_status(uuid,bytea) owner to postern_tenancy;
grant execute on routine tenancy.find_person_status(uuid,bytea) to postern_keys_definer;

CREATE OR REPLACE PROCEDURE tenancy.give_function(IN routine regprocedure, IN definer name, IN callers name[])
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
declare
  schema_name pg_catalog.name;
  caller pg_catalog.name;
begin
  select n.nspname
    into schema_name
    from pg_catalog.pg_proc as p
    join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
   where p.oid = routine
     and p.prosecdef
     and p.proconfig @> array['search_path=""'];
  if not found then
    raise exception '% must be "security definer" and "set search_path = ''''"', routine;
  end if;
  perform tenancy.assert_definer(definer);

  execute pg_catalog.format('revoke execute on routine %s from public', routine);
  foreach caller in array callers loop
    execute pg_catalog.format('grant execute on routine %s to %I', routine, caller);
  end loop;
  execute pg_catalog.format('grant usage, create on schema %I to %I', schema_name, definer);
  execute pg_catalog.format('alter routine %s owner to %I', routine, definer);
  execute pg_catalog.format('revoke create on schema %I from %I', schema_name, definer);
end
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.has_active_person(tenant uuid, name_hash bytea)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select exists (
    select
      from tenancy.directory_name as n
     where n.tenant_id = tenant
       and n.hash = name_hash
       and n.is_active
       and n.is_current)
$function$;
alter routine tenancy.has_active_person(uuid,bytea) owner to postern_tenancy;
grant execute on routine tenancy.has_active_person(uuid,bytea) to postern_keys_definer;

CREATE OR REPLACE FUNCTION tenancy.hash_name(tenant uuid, attribute text, name text)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select pg_catalog.sha256(pg_catalog.convert_to(
    'person ' || tenant::pg_catalog.text || ' ' || attribute || ' ' ||
    case when attribute = 'externalId' then n.name else pg_catalog.lower(n.name collate pg_catalog.pg_c_utf8) end, 'UTF8'))
    from (select pg_catalog.normalize($3, 'NFC') as name) as n
$function$;
grant execute on routine tenancy.hash_name(uuid,text,text) to postern_keys_definer;
grant execute on routine tenancy.hash_name(uuid,text,text) to postern_sync;
grant execute on routine tenancy.hash_name(uuid,text,text) to postern_universe;

CREATE OR REPLACE FUNCTION tenancy.hmac_pad(secret bytea, pad integer)
 RETURNS bytea
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO ''
AS $function$
declare
  block pg_catalog.bytea := secret || pg_catalog.decode(pg_catalog.repeat('00', 64 - pg_catalog.octet_length(secret)), 'hex');
begin
  for position in 0..63 loop
    block := pg_catalog.set_byte(block, position, pg_catalog.get_byte(block, position) # pad);
  end loop;
  return block;
end
$function$;

CREATE OR REPLACE FUNCTION tenancy.hold_work(work uuid, worker uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  update tenancy.granted_work as g
     set holder = worker
   where g.work_id = work;
  return found;
end
$function$;
alter routine tenancy.hold_work(uuid,uuid) owner to postern_tenancy;
grant execute on routine tenancy.hold_work(uuid,uuid) to postern_sync;

CREATE OR REPLACE FUNCTION tenancy.is_valid(assertion text, inner_pad bytea, outer_pad bytea)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN CASE WHEN ((octet_length(assertion) <= 128) AND starts_with(assertion, 'v1.'::text) AND (sha256((inner_pad || convert_to(assertion, 'UTF8'::name))) = sha256((inner_pad || convert_to((("left"(assertion, '-44'::integer) || '.'::text) || translate(encode(sha256((outer_pad || sha256((inner_pad || convert_to("left"(assertion, '-44'::integer), 'UTF8'::name))))), 'base64'::text), '+/='::text, '-_'::text)), 'UTF8'::name))))) THEN (((((split_part(assertion, '.'::text, 4))::bigint)::numeric - EXTRACT(epoch FROM statement_timestamp())) > (0)::numeric) AND ((((split_part(assertion, '.'::text, 4))::bigint)::numeric - EXTRACT(epoch FROM statement_timestamp())) <= (300)::numeric)) ELSE NULL::boolean END;
grant execute on routine tenancy.is_valid(text,bytea,bytea) to postern_tenancy;

CREATE OR REPLACE FUNCTION tenancy.is_work_suspended(work uuid, worker uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select exists (
    select
      from tenancy.granted_work as g
      join tenancy.suspended_tenant as s on s.tenant_id = g.tenant_id
     where g.work_id = work and g.holder = worker)
$function$;
alter routine tenancy.is_work_suspended(uuid,uuid) owner to postern_tenancy;
grant execute on routine tenancy.is_work_suspended(uuid,uuid) to postern_sync;

CREATE OR REPLACE FUNCTION tenancy.issue_for_run(work uuid, worker uuid)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  tenant pg_catalog.uuid;
  secret record;
  said pg_catalog.text;
begin
  select g.tenant_id into tenant from tenancy.granted_work as g where g.work_id = work and g.holder = worker;
  select s.key_id, s.inner_pad, s.outer_pad
    into secret
    from tenancy.assertion_secret as s
   where s.not_after is null
   order by s.created_at desc, s.key_id
   limit 1;
  if tenant is null or secret.key_id is null then
    raise exception using errcode = '28000', message = 'tenant assertion refused';
  end if;
  said := pg_catalog.concat_ws('.', 'v1', secret.key_id, tenant,
    (pg_catalog.floor(extract(epoch from pg_catalog.statement_timestamp())) + 60)::pg_catalog.int8);
  return said || '.' || pg_catalog.translate(pg_catalog.encode(
    pg_catalog.sha256(secret.outer_pad || pg_catalog.sha256(secret.inner_pad || pg_catalog.convert_to(said, 'UTF8'))),
    'base64'), '+/=', '-_');
end
$function$;
alter routine tenancy.issue_for_run(uuid,uuid) owner to postern_tenancy;
grant execute on routine tenancy.issue_for_run(uuid,uuid) to postern_sync;

CREATE OR REPLACE FUNCTION tenancy.list_event_readers()
 RETURNS TABLE(tenant_id uuid, since timestamp with time zone)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select r.tenant_id, r.since from tenancy.event_reader as r
$function$;
alter routine tenancy.list_event_readers() owner to postern_tenancy;
grant execute on routine tenancy.list_event_readers() to postern_findings_definer;
grant execute on routine tenancy.list_event_readers() to postern_keys_definer;

CREATE OR REPLACE FUNCTION tenancy.maintain_audit_events(most integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  tenant pg_catalog.uuid;
  kept_days pg_catalog.int4;
  is_more pg_catalog.bool := false;
  deleted pg_catalog.int8;
begin
  for tenant in
    select h.tenant_id from tenancy.audit_head as h
    union
    select e.tenant_id from tenancy.audit_event as e where e.ended_at is not null
     order by tenant_id
  loop
    -- audit_event_unplaced
    perform from tenancy.audit_event as e
     where e.tenant_id = tenant and e.ended_at is not null and e.at < pg_catalog.clock_timestamp() - interval '1 minute'
     limit 1;
    if found then
      is_more := tenancy.place_audit_events(tenant, most) or is_more;
    end if;
    -- Events have a position only if their tenant has a head.
    select h.retention_days into kept_days from tenancy.audit_head as h where h.tenant_id = tenant;
    -- audit_event_by_time
    delete from tenancy.audit_event as e
     where e.tenant_id = tenant
       and e.id in (
             select o.id
               from tenancy.audit_event as o
              where o.tenant_id = tenant
                and o.position is not null
                and o.at < pg_catalog.clock_timestamp() - pg_catalog.make_interval(days => kept_days)
              order by o.at
              limit most);
    get diagnostics deleted = row_count;
    is_more := deleted = most or is_more;
  end loop;
  return is_more;
end
$function$;
alter routine tenancy.maintain_audit_events(integer) owner to postern_tenancy;
grant execute on routine tenancy.maintain_audit_events(integer) to postern_keys;

CREATE OR REPLACE FUNCTION tenancy.name_system_actor()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  new.actor_id := null;
  new.actor_name := 'Postern';
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION tenancy.note_changes()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  noted constant pg_catalog.text := case tg_op when 'DELETE' then 'old_rows' else 'new_rows' end;
  -- An update that has changed nothing is no change.
  changed constant pg_catalog.text := case tg_op
    when 'UPDATE' then pg_catalog.format(
      'where not exists (select from old_rows as o where o.tenant_id = r.tenant_id and o.%1$I = r.%1$I and o = r)', tg_argv[1])
    else ''
  end;
  done constant pg_catalog.text := case tg_op when 'INSERT' then 'created' when 'UPDATE' then 'updated' else 'deleted' end;
  tenants pg_catalog.uuid[];
  tenant pg_catalog.uuid;
  batch pg_catalog.uuid;
  noted_before pg_catalog.int4;
begin
  if tg_op = 'INSERT' then
    select pg_catalog.array_agg(distinct r.tenant_id) into tenants from new_rows as r;
  else
    execute pg_catalog.format('select pg_catalog.array_agg(distinct r.tenant_id) from %s as r %s', noted, changed) into tenants;
  end if;
  if tenants is null then
    return null;
  end if;
  foreach tenant in array tenants loop
    noted_before := 0;
    -- change_batch_open
    select b.id
      into batch
      from tenancy.change_batch as b
     where b.tenant_id = tenant
       and b.made_by = pg_catalog.pg_current_xact_id();
    if found then
      -- change_pk
      select coalesce(max(c.ordinal), 0)
        into noted_before
        from tenancy.change as c
       where c.tenant_id = tenant
         and c.batch_id = batch;
    else
      insert into tenancy.change_batch (tenant_id, made_by)
      values (tenant, pg_catalog.pg_current_xact_id())
      returning id into batch;
    end if;
    -- The statements without `execute` are those of every creation.
    if tg_op = 'INSERT' and tg_argv[1] = 'id' and tg_argv[2] = 'r.version' then
      insert into tenancy.change (tenant_id, batch_id, ordinal, kind, resource_id, change, version)
      select tenant, batch, noted_before + pg_catalog.row_number() over (order by r.id), tg_argv[0], r.id, done, r.version
        from new_rows as r
       where r.tenant_id = tenant;
    elsif tg_op = 'INSERT' and tg_argv[1] = 'finding_id' and tg_argv[2] = 'null' then
      insert into tenancy.change (tenant_id, batch_id, ordinal, kind, resource_id, change, version)
      select tenant, batch, noted_before + pg_catalog.row_number() over (order by r.finding_id), tg_argv[0], r.finding_id, done, null
        from new_rows as r
       where r.tenant_id = tenant;
    else
      execute pg_catalog.format($dml$
        insert into tenancy.change (tenant_id, batch_id, ordinal, kind, resource_id, change, version)
        select $1, $2, $5 + pg_catalog.row_number() over (order by r.%1$I), $3, r.%1$I, $4, %2$s
          from %3$s as r
         %4$s %5$s r.tenant_id = $1$dml$,
        tg_argv[1], tg_argv[2], noted, changed, case changed when '' then 'where' else 'and' end)
        using tenant, batch, tg_argv[0], done, noted_before;
    end if;
  end loop;
  return null;
end
$function$;
alter routine tenancy.note_changes() owner to postern_tenancy;
grant execute on routine tenancy.note_changes() to postern_owner;

CREATE OR REPLACE FUNCTION tenancy.note_event()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  resource constant pg_catalog.uuid := (pg_catalog.to_jsonb(new) operator(pg_catalog.->>) tg_argv[0])::pg_catalog.uuid;
  batch pg_catalog.uuid;
  noted pg_catalog.int4;
begin
  perform from tenancy.event_reader as r where r.tenant_id = new.tenant_id;
  if not found then
    return null;
  end if;
  -- change_batch_open
  select b.id
    into batch
    from tenancy.change_batch as b
   where b.tenant_id = new.tenant_id
     and b.made_by = pg_catalog.pg_current_xact_id();
  if not found then
    insert into tenancy.change_batch (tenant_id, made_by)
    values (new.tenant_id, pg_catalog.pg_current_xact_id())
    returning id into batch;
  end if;
  for n in 1 .. tg_nargs - 1 loop
    -- change_pk
    select coalesce(max(c.ordinal), 0) + 1
      into noted
      from tenancy.change as c
     where c.tenant_id = new.tenant_id
       and c.batch_id = batch;
    insert into tenancy.change (tenant_id, batch_id, ordinal, kind, resource_id, change, event)
    values (new.tenant_id, batch, noted, 'event', resource, 'updated', tg_argv[n]);
  end loop;
  return null;
end
$function$;
alter routine tenancy.note_event() owner to postern_tenancy;
grant execute on routine tenancy.note_event() to postern_owner;

CREATE OR REPLACE FUNCTION tenancy.note_suspension(tenant uuid, suspended boolean)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
begin
  perform tenancy.assert_operator();
  if suspended then
    insert into tenancy.suspended_tenant (tenant_id) values (tenant) on conflict do nothing;
  else
    delete from tenancy.suspended_tenant as s where s.tenant_id = tenant;
  end if;
end
$function$;
alter routine tenancy.note_suspension(uuid,boolean) owner to postern_tenancy;
grant execute on routine tenancy.note_suspension(uuid,boolean) to postern_keys;

CREATE OR REPLACE FUNCTION tenancy.place_audit_events(tenant uuid, most integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  last pg_catalog.int8;
  placed pg_catalog.int8;
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('tenancy.audit_event ' || tenant::pg_catalog.text, 0));
  insert into tenancy.audit_head as h (tenant_id, last_position) values (tenant, 0) on conflict (tenant_id) do nothing;
  select h.last_position into last from tenancy.audit_head as h where h.tenant_id = tenant;

  -- audit_event_unplaced
  update tenancy.audit_event as e
     set position = last + next.number,
         ended_at = null
    from (select u.id, pg_catalog.row_number() over (order by u.ended_at, u.id) as number
            from tenancy.audit_event as u
           where u.tenant_id = tenant
             and u.ended_at is not null
           order by u.ended_at, u.id
           limit most) as next
   where e.tenant_id = tenant
     and e.id = next.id;
  get diagnostics placed = row_count;
  if placed > 0 then
    update tenancy.audit_head as h set last_position = last + placed where h.tenant_id = tenant;
  end if;
  return placed = most;
end
$function$;
grant execute on routine tenancy.place_audit_events(uuid,integer) to postern_tenancy;

CREATE OR REPLACE FUNCTION tenancy.place_changes(tenant uuid, most integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  last pg_catalog.int8;
  placed pg_catalog.int8;
  pruned pg_catalog.int8;
begin
  insert into tenancy.change_head as h (tenant_id, last_position) values (tenant, 0) on conflict (tenant_id) do nothing;
  select h.last_position into last from tenancy.change_head as h where h.tenant_id = tenant;

  -- change_batch_unplaced
  update tenancy.change_batch as b
     set position = last + next.number,
         ended_at = null
    from (select u.id, pg_catalog.row_number() over (order by u.ended_at, u.id) as number
            from tenancy.change_batch as u
           where u.tenant_id = tenant
             and u.made_by is null
             and u.ended_at is not null
           order by u.ended_at, u.id
           limit most) as next
   where b.tenant_id = tenant
     and b.id = next.id;
  get diagnostics placed = row_count;

  with expired as (
    select oldest.id, oldest.position
      from (select b.id, b.position, b.committed_at
              from tenancy.change_batch as b
             where b.tenant_id = tenant
               and b.position is not null
             order by b.position
             limit greatest(20, 2 * placed)) as oldest
     where oldest.committed_at < pg_catalog.clock_timestamp() - interval '30 days'
  ), forgotten as (
    delete from tenancy.change as c using expired where c.tenant_id = tenant and c.batch_id = expired.id
  ), gone as (
    delete from tenancy.change_batch as b using expired where b.tenant_id = tenant and b.id = expired.id
  )
  select pg_catalog.max(expired.position) into pruned from expired;

  if placed > 0 or pruned is not null then
    update tenancy.change_head as h
       set last_position = last + placed,
           pruned_position = coalesce(pruned, h.pruned_position)
     where h.tenant_id = tenant;
  end if;
  return placed = most;
end
$function$;
grant execute on routine tenancy.place_changes(uuid,integer) to postern_tenancy;

CREATE OR REPLACE PROCEDURE tenancy.protect_table(IN protected regclass, IN runtime name, IN commands text[])
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
declare
  condition constant pg_catalog.text := 'tenant_id = (select tenancy.tenant_id())';
begin
  perform
    from pg_catalog.pg_attribute as a
   where a.attrelid = protected
     and a.attname = 'tenant_id'
     and a.atttypid = 'pg_catalog.uuid'::pg_catalog.regtype
     and a.attnotnull;
  if not found then
    raise exception '% has no column "tenant_id uuid not null"', protected;
  end if;
  call tenancy.set_access(protected, runtime, commands, condition);
  call tenancy.restrict_to_tenant(protected);
end
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.record_audit_event(tenant uuid, at timestamp with time zone, category text, action text, outcome text, reason text, actor_type text, actor_id text, actor_name text, resource_type text, resource_id text, resource_name text, source_ip text, request_id text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  insert into tenancy.audit_event (
    tenant_id, at, category, action, outcome, reason, actor_type, actor_id, actor_name,
    resource_type, resource_id, resource_name, source_ip, request_id)
  values (
    tenant, record_audit_event.at, record_audit_event.category, record_audit_event.action, record_audit_event.outcome,
    record_audit_event.reason, record_audit_event.actor_type, record_audit_event.actor_id, record_audit_event.actor_name,
    record_audit_event.resource_type, record_audit_event.resource_id, record_audit_event.resource_name,
    record_audit_event.source_ip, record_audit_event.request_id)
$function$;
alter routine tenancy.record_audit_event(uuid,timestamp with time zone,text,text,text,text,text,text,text,text,text,text,text,text) owner to postern_tenancy;
grant execute on routine tenancy.record_audit_event(uuid,timestamp with time zone,text,text,text,text,text,text,text,text,text,text,text,text) to postern_keys_definer;

CREATE OR REPLACE FUNCTION tenancy.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  raise exception using
    errcode = '55000',
    message = pg_catalog.format('rows of %s.%s are never changed or deleted', tg_table_schema, tg_table_name),
    schema = tg_table_schema,
    table = tg_table_name;
end
$function$;

CREATE OR REPLACE PROCEDURE tenancy.restrict_to_tenant(IN protected regclass)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
declare
  subjects pg_catalog.text;
begin
  select case when pg_catalog.bool_or(pg_catalog.pg_get_expr(coalesce(p.polqual, p.polwithcheck), p.polrelid) = 'true')
              then pg_catalog.string_agg(distinct pg_catalog.quote_ident(r.rolname), ', ')
                     filter (where pg_catalog.pg_get_expr(coalesce(p.polqual, p.polwithcheck), p.polrelid) <> 'true')
              else 'public'
         end
    into subjects
    from pg_catalog.pg_policy as p
    join pg_catalog.pg_roles as r on r.oid = any (p.polroles)
   where p.polrelid = protected
     and p.polpermissive;
  if subjects <> 'public' or subjects is null then
    subjects := pg_catalog.concat_ws(', ', (
      select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(c.relowner))
        from pg_catalog.pg_class as c
       where c.oid = protected), subjects);
  end if;
  execute pg_catalog.format('drop policy if exists tenant_only on %s', protected);
  execute pg_catalog.format(
    'create policy tenant_only on %s as restrictive for all to %s using (%s) with check (%3$s)',
    protected, subjects, 'tenant_id = (select tenancy.tenant_id())');
end
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.sequence_audit_events()
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  select tenancy.place_audit_events(tenancy.tenant_id(), 1000)
$function$;
alter routine tenancy.sequence_audit_events() owner to postern_tenancy;
grant execute on routine tenancy.sequence_audit_events() to postern_keys;

CREATE OR REPLACE FUNCTION tenancy.sequence_changes()
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  tenant constant pg_catalog.uuid := tenancy.tenant_id();
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('tenancy.change ' || tenant::pg_catalog.text, 0));
  perform from tenancy.change_batch as b where b.tenant_id = tenant and b.made_by is null and b.ended_at is not null limit 1;
  return found and tenancy.place_changes(tenant, 1000);
end
$function$;
alter routine tenancy.sequence_changes() owner to postern_tenancy;
grant execute on routine tenancy.sequence_changes() to postern_findings;
grant execute on routine tenancy.sequence_changes() to postern_sync;

CREATE OR REPLACE PROCEDURE tenancy.set_access(IN protected regclass, IN grantee name, IN commands text[], IN condition text)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
declare
  command pg_catalog.text;
  policy pg_catalog.name;
begin
  execute pg_catalog.format('alter table %s enable row level security, force row level security', protected);
  execute pg_catalog.format('grant usage on schema %I to %I', (
    select n.nspname
      from pg_catalog.pg_class as c
      join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
     where c.oid = protected), grantee);
  execute pg_catalog.format('revoke all on table %s from %I', protected, grantee);
  foreach command in array array['select', 'insert', 'update', 'delete'] loop
    execute pg_catalog.format('drop policy if exists %I on %s', grantee || '_' || command, protected);
  end loop;

  foreach command in array commands loop
    policy := grantee || '_' || command;
    execute case command
      when 'select' then pg_catalog.format('create policy %I on %s for select to %I using (%s)',
        policy, protected, grantee, condition)
      when 'insert' then pg_catalog.format('create policy %I on %s for insert to %I with check (%s)',
        policy, protected, grantee, condition)
      when 'update' then pg_catalog.format('create policy %I on %s for update to %I using (%s) with check (%4$s)',
        policy, protected, grantee, condition)
      when 'delete' then pg_catalog.format('create policy %I on %s for delete to %I using (%s)',
        policy, protected, grantee, condition)
    end;
    execute pg_catalog.format('grant %s on table %s to %I', command, protected, grantee);
  end loop;
end
$procedure$;

CREATE OR REPLACE FUNCTION tenancy.set_audit_retention(tenant uuid, days integer)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO ''
AS $function$
  insert into tenancy.audit_head as h (tenant_id, last_position, retention_days) values (tenant, 0, days)
      on conflict (tenant_id) do update set retention_days = excluded.retention_days
$function$;
alter routine tenancy.set_audit_retention(uuid,integer) owner to postern_tenancy;
grant execute on routine tenancy.set_audit_retention(uuid,integer) to postern_keys_definer;

CREATE OR REPLACE FUNCTION tenancy.tenant_id()
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE PARALLEL SAFE SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  assertion constant pg_catalog.text := pg_catalog.current_setting('postern.assertion', true);
  inner_pad pg_catalog.bytea;
  outer_pad pg_catalog.bytea;
begin
  select s.inner_pad, s.outer_pad
    into inner_pad, outer_pad
    from tenancy.assertion_secret as s
   where s.key_id = pg_catalog.split_part(assertion, '.', 2)
     and (s.not_after is null or s.not_after > pg_catalog.statement_timestamp());
  -- The nil UUID is the platform's operator, who is not a tenant and owns no rows.
  if tenancy.is_valid(assertion, inner_pad, outer_pad)
     and pg_catalog.split_part(assertion, '.', 3) <> '00000000-0000-0000-0000-000000000000' then
    return pg_catalog.split_part(assertion, '.', 3)::pg_catalog.uuid;
  end if;
  raise exception using errcode = '28000', message = 'tenant assertion refused';
end
$function$;
alter routine tenancy.tenant_id() owner to postern_tenancy;
grant execute on routine tenancy.tenant_id() to postern_evidence;
grant execute on routine tenancy.tenant_id() to postern_findings;
grant execute on routine tenancy.tenant_id() to postern_keys;
grant execute on routine tenancy.tenant_id() to postern_keys_definer;
grant execute on routine tenancy.tenant_id() to postern_sync;
grant execute on routine tenancy.tenant_id() to postern_universe;

CREATE OR REPLACE PROCEDURE tenancy.track_changes(IN tracked regclass, IN kind text, IN id_column name DEFAULT 'id'::name)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $procedure$
declare
  version constant pg_catalog.text := case when exists (
    select from pg_catalog.pg_attribute as a
     where a.attrelid = tracked and a.attname = 'version' and not a.attisdropped) then 'r.version' else 'null' end;
  arguments constant pg_catalog.text := pg_catalog.format('%L, %L, %L', kind, id_column, version);
begin
  execute pg_catalog.format('create trigger note_inserts after insert on %s referencing new table as new_rows '
    'for each statement execute function tenancy.note_changes(%s)', tracked, arguments);
  execute pg_catalog.format('create trigger note_updates after update on %s '
    'referencing old table as old_rows new table as new_rows '
    'for each statement execute function tenancy.note_changes(%s)', tracked, arguments);
  execute pg_catalog.format('create trigger note_deletes after delete on %s referencing old table as old_rows '
    'for each statement execute function tenancy.note_changes(%s)', tracked, arguments);
end
$procedure$;
