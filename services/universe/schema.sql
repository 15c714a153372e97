create schema universe authorization postern_owner;
grant usage on schema universe to postern_universe;

create table universe.entity (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  number integer not null,
  reference text not null generated always as (('AE-'::text || lpad((number)::text, GREATEST(4, char_length((number)::text)), '0'::text))) stored,
  external_id text,
  name text not null,
  description text,
  type text not null,
  status text not null,
  parent_id uuid,
  owner jsonb,
  audit_lead jsonb,
  executive jsonb,
  inherent_rating text,
  inherent_score double precision,
  residual_rating text,
  residual_score double precision,
  risk_assessed_on date,
  audit_frequency_months integer,
  last_audit_on date,
  last_audit_opinion text,
  regulatory_next_due_on date,
  custom jsonb not null default '{}'::jsonb,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  version integer not null default 1,
  next_audit_due_on date generated always as (LEAST(
CASE
    WHEN ((last_audit_on IS NOT NULL) AND (audit_frequency_months IS NOT NULL)) THEN LEAST(((last_audit_on + make_interval(months => audit_frequency_months)))::date, '9999-12-31'::date)
    ELSE NULL::date
END, regulatory_next_due_on)) stored,
  source_connector_id text,
  source_first_seen_at timestamp(3) with time zone,
  source_last_seen_at timestamp(3) with time zone,
  source_missing_since timestamp(3) with time zone,
  constraint entity_pk PRIMARY KEY (tenant_id, id),
  constraint entity_external_id_unique UNIQUE (tenant_id, external_id),
  constraint entity_number_unique UNIQUE (tenant_id, number),
  constraint entity_reference_unique UNIQUE (tenant_id, reference),
  constraint entity_audit_frequency_range CHECK (((audit_frequency_months >= 1) AND (audit_frequency_months <= 120))),
  constraint entity_audit_lead_is_object CHECK ((jsonb_typeof(audit_lead) = 'object'::text)),
  constraint entity_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint entity_custom_is_object CHECK ((jsonb_typeof(custom) = 'object'::text)),
  constraint entity_description_length CHECK ((char_length(description) <= 20000)),
  constraint entity_executive_is_object CHECK ((jsonb_typeof(executive) = 'object'::text)),
  constraint entity_external_id_length CHECK (((char_length(external_id) >= 1) AND (char_length(external_id) <= 255))),
  constraint entity_inherent_rating_known CHECK ((inherent_rating = ANY (ARRAY['critical'::text, 'high'::text, 'medium'::text, 'low'::text]))),
  constraint entity_inherent_risk_whole CHECK (((inherent_rating IS NULL) = (inherent_score IS NULL))),
  constraint entity_inherent_score_range CHECK (((inherent_score >= (0)::double precision) AND (inherent_score <= (100)::double precision))),
  constraint entity_last_audit_on_range CHECK (((last_audit_on >= '1900-01-01'::date) AND (last_audit_on <= '9999-12-31'::date))),
  constraint entity_last_audit_opinion_known CHECK ((last_audit_opinion = ANY (ARRAY['satisfactory'::text, 'needs_improvement'::text, 'unsatisfactory'::text]))),
  constraint entity_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 255))),
  constraint entity_number_positive CHECK ((number > 0)),
  constraint entity_owner_is_object CHECK ((jsonb_typeof(owner) = 'object'::text)),
  constraint entity_parent_is_another CHECK ((parent_id <> id)),
  constraint entity_regulatory_next_due_on_range CHECK (((regulatory_next_due_on >= '1900-01-01'::date) AND (regulatory_next_due_on <= '9999-12-31'::date))),
  constraint entity_residual_rating_known CHECK ((residual_rating = ANY (ARRAY['critical'::text, 'high'::text, 'medium'::text, 'low'::text]))),
  constraint entity_residual_risk_whole CHECK (((residual_rating IS NULL) = (residual_score IS NULL))),
  constraint entity_residual_score_range CHECK (((residual_score >= (0)::double precision) AND (residual_score <= (100)::double precision))),
  constraint entity_risk_assessed_on_range CHECK (((risk_assessed_on >= '1900-01-01'::date) AND (risk_assessed_on <= '9999-12-31'::date))),
  constraint entity_source_whole CHECK ((((source_connector_id IS NULL) = (source_first_seen_at IS NULL)) AND ((source_last_seen_at IS NULL) = (source_missing_since IS NULL)))),
  constraint entity_status_known CHECK ((status = ANY (ARRAY['draft'::text, 'active'::text, 'archived'::text]))),
  constraint entity_type_known CHECK ((type = ANY (ARRAY['legal_entity'::text, 'business_unit'::text, 'department'::text, 'process'::text, 'product'::text, 'it_system'::text, 'location'::text, 'vendor'::text, 'project'::text, 'regulation'::text, 'other'::text]))),
  constraint entity_version_positive CHECK ((version > 0))
);
CREATE INDEX entity_by_change ON universe.entity USING btree (tenant_id, updated_at, number);
CREATE INDEX entity_by_name ON universe.entity USING btree (tenant_id, name, number);
CREATE INDEX entity_by_next_audit_due ON universe.entity USING btree (tenant_id, COALESCE(next_audit_due_on, 'infinity'::date), number);
CREATE INDEX entity_by_parent_number ON universe.entity USING btree (tenant_id, parent_id, number);
CREATE INDEX entity_missing ON universe.entity USING btree (tenant_id, number) WHERE (source_missing_since IS NOT NULL);
CREATE TRIGGER entity_forgets_hashes AFTER UPDATE ON universe.entity REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION universe.forget_source_hashes();
CREATE TRIGGER entity_guard BEFORE UPDATE ON universe.entity FOR EACH ROW EXECUTE FUNCTION universe.guard_entity();
CREATE TRIGGER entity_needed BEFORE DELETE ON universe.entity FOR EACH ROW EXECUTE FUNCTION universe.keep_needed_entity();
CREATE TRIGGER entity_never_emptied BEFORE TRUNCATE ON universe.entity FOR EACH STATEMENT EXECUTE FUNCTION universe.keep_needed_entity();
CREATE TRIGGER entity_tree_after_insert AFTER INSERT ON universe.entity REFERENCING NEW TABLE AS new_entity FOR EACH STATEMENT EXECUTE FUNCTION universe.place_new_entities();
CREATE TRIGGER entity_tree_after_update AFTER UPDATE ON universe.entity REFERENCING OLD TABLE AS old_entity NEW TABLE AS new_entity FOR EACH STATEMENT EXECUTE FUNCTION universe.guard_entity_tree();
CREATE TRIGGER note_deletes AFTER DELETE ON universe.entity REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('entity', 'id', 'r.version');
CREATE TRIGGER note_inserts AFTER INSERT ON universe.entity REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('entity', 'id', 'r.version');
CREATE TRIGGER note_updates AFTER UPDATE ON universe.entity REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('entity', 'id', 'r.version');
alter table universe.entity enable row level security;
alter table universe.entity force row level security;
create policy postern_universe_insert on universe.entity as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.entity as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.entity as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.entity as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.entity to postern_universe;
comment on table universe.entity is 'What can be audited, as its source describes it. Never deleted: findings point at it.';
comment on column universe.entity.external_id is 'The source''s own key: by it a push finds the row that it speaks of.';
comment on column universe.entity.created_at is 'Milliseconds, as clients see it.';
comment on column universe.entity.next_audit_due_on is 'The last audit plus the frequency, or the regulator''s date where that is earlier.';
comment on column universe.entity.source_connector_id is 'The connector that brings the entity, where it is not the one that has made it.';
comment on column universe.entity.source_first_seen_at is 'Since when that connector brings it.';
comment on column universe.entity.source_last_seen_at is 'Of what is missing: when its source was last read and had it.';

create table universe.entity_path (
  tenant_id uuid not null,
  entity_id uuid not null,
  path text not null,
  depth integer not null generated always as ((char_length(path) / 8)) stored,
  constraint entity_path_pk PRIMARY KEY (tenant_id, entity_id),
  constraint entity_path_unique UNIQUE (tenant_id, path),
  constraint entity_path_form CHECK ((((char_length(path) >= 8) AND (char_length(path) <= 96)) AND ((char_length(path) % 8) = 0) AND (translate(path, '0123456789abcdef'::text, ''::text) = ''::text)))
);
CREATE INDEX entity_path_by_depth ON universe.entity_path USING btree (tenant_id, depth, path);
CREATE TRIGGER entity_path_of_entity_when_changed AFTER UPDATE ON universe.entity_path REFERENCING NEW TABLE AS new_path FOR EACH STATEMENT WHEN ((pg_trigger_depth() = 0)) EXECUTE FUNCTION universe.guard_entity_path();
CREATE TRIGGER entity_path_of_entity_when_made AFTER INSERT ON universe.entity_path REFERENCING NEW TABLE AS new_path FOR EACH STATEMENT WHEN ((pg_trigger_depth() = 0)) EXECUTE FUNCTION universe.guard_entity_path();
alter table universe.entity_path enable row level security;
alter table universe.entity_path force row level security;
create policy postern_universe_insert on universe.entity_path as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.entity_path as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.entity_path as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.entity_path as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.entity_path to postern_universe;
comment on table universe.entity_path is 'Where an entity stands. Written by the triggers of universe.entity alone.';
comment on column universe.entity_path.path is 'The labels of the numbers from the root down to the entity.';

create table universe.hierarchy (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  key text not null,
  name text not null,
  kind text not null,
  is_primary boolean not null,
  version integer not null default 0,
  last_number integer not null default 0,
  node_count integer not null default 0,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  constraint hierarchy_pk PRIMARY KEY (tenant_id, id),
  constraint hierarchy_key_unique UNIQUE (tenant_id, key),
  constraint hierarchy_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint hierarchy_key_form CHECK ((key ~ '^[a-z0-9][a-z0-9_-]{0,63}$'::text)),
  constraint hierarchy_kind_known CHECK ((kind = ANY (ARRAY['legal_entity'::text, 'management'::text, 'process'::text, 'geography'::text, 'technology'::text, 'custom'::text]))),
  constraint hierarchy_last_number_not_negative CHECK ((last_number >= 0)),
  constraint hierarchy_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 255))),
  constraint hierarchy_node_count_not_negative CHECK ((node_count >= 0)),
  constraint hierarchy_version_not_negative CHECK ((version >= 0))
);
CREATE UNIQUE INDEX hierarchy_one_primary ON universe.hierarchy USING btree (tenant_id) WHERE is_primary;
CREATE TRIGGER note_deletes AFTER DELETE ON universe.hierarchy REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('hierarchy', 'id', 'r.version');
CREATE TRIGGER note_inserts AFTER INSERT ON universe.hierarchy REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('hierarchy', 'id', 'r.version');
CREATE TRIGGER note_updates AFTER UPDATE ON universe.hierarchy REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('hierarchy', 'id', 'r.version');
alter table universe.hierarchy enable row level security;
alter table universe.hierarchy force row level security;
create policy postern_universe_insert on universe.hierarchy as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.hierarchy as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.hierarchy as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.hierarchy as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.hierarchy to postern_universe;
comment on column universe.hierarchy.version is 'Rises by one with each push that changes a node.';
comment on column universe.hierarchy.last_number is 'The last number given to a node; numbers may be left out.';
comment on column universe.hierarchy.node_count is 'Active nodes.';

create table universe.hierarchy_version (
  tenant_id uuid not null,
  hierarchy_id uuid not null,
  version integer not null,
  run_id uuid not null,
  applied_at timestamp(3) with time zone not null default now(),
  constraint hierarchy_version_pk PRIMARY KEY (tenant_id, hierarchy_id, version),
  constraint hierarchy_version_positive CHECK ((version > 0)),
  constraint hierarchy_version_hierarchy_fk FOREIGN KEY (tenant_id, hierarchy_id) REFERENCES universe.hierarchy(tenant_id, id)
);
CREATE CONSTRAINT TRIGGER hierarchy_version_is_tree AFTER INSERT ON universe.hierarchy_version DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION universe.guard_hierarchy_tree();
CREATE TRIGGER hierarchy_version_never_emptied BEFORE TRUNCATE ON universe.hierarchy_version FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER hierarchy_version_only_grows BEFORE DELETE OR UPDATE ON universe.hierarchy_version FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table universe.hierarchy_version enable row level security;
alter table universe.hierarchy_version force row level security;
create policy postern_universe_insert on universe.hierarchy_version as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.hierarchy_version as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.hierarchy_version as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table universe.hierarchy_version to postern_universe;
comment on table universe.hierarchy_version is 'When each version came to be: how a date leads to a version.';

create table universe.import (
  tenant_id uuid not null,
  run_id uuid not null,
  attempt integer not null,
  applied_sequence integer not null,
  connector_id text not null default ''::text,
  scope text not null default ''::text,
  read_at timestamp(3) with time zone not null default now(),
  rollback_of uuid,
  is_whole boolean not null default false,
  diff_hash text,
  applied_count integer not null default 0,
  is_finished boolean not null default false,
  is_cleared boolean not null default false,
  is_authoritative boolean,
  constraint import_pk PRIMARY KEY (tenant_id, run_id),
  constraint import_applied_count_not_negative CHECK ((applied_count >= 0)),
  constraint import_applied_sequence_not_negative CHECK ((applied_sequence >= 0)),
  constraint import_attempt_positive CHECK ((attempt > 0))
);
CREATE INDEX import_by_connector ON universe.import USING btree (tenant_id, connector_id, run_id);
alter table universe.import enable row level security;
alter table universe.import force row level security;
create policy postern_universe_insert on universe.import as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.import as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.import as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.import as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.import to postern_universe;
comment on table universe.import is 'A run of a connector. Whoever writes its rows locks this row first.';
comment on column universe.import.attempt is 'Requests of an earlier attempt at the run are rejected.';
comment on column universe.import.applied_sequence is 'The seq of the last row that was applied; 0 if none was.';
comment on column universe.import.scope is 'The dataset; of a hierarchy followed by a slash and its key.';
comment on column universe.import.read_at is 'When the source was first read. What it lacks is missing since then.';
comment on column universe.import.rollback_of is 'The run that this one undoes.';
comment on column universe.import.is_whole is 'Whether the source was read completely, with a key in each row.';
comment on column universe.import.diff_hash is 'The hash of the changes, once all are known. Only these changes are applied.';
comment on column universe.import.is_finished is 'Whether all of its rows are applied or rejected.';
comment on column universe.import.is_cleared is 'Whether only changes are left of the rows of an ended run.';
comment on column universe.import.is_authoritative is 'Whether the plan counts people who lose access. Null: not planned, or a rollback.';

create table universe.import_batch (
  tenant_id uuid not null,
  run_id uuid not null,
  last_seq integer not null,
  applied_at timestamp(3) with time zone not null default now(),
  constraint import_batch_pk PRIMARY KEY (tenant_id, run_id, last_seq)
);
alter table universe.import_batch enable row level security;
alter table universe.import_batch force row level security;
create policy postern_universe_insert on universe.import_batch as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.import_batch as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.import_batch as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table universe.import_batch to postern_universe;
comment on table universe.import_batch is 'When the rows of a run up to a seq were applied.';

create table universe.import_row (
  tenant_id uuid not null,
  run_id uuid not null,
  seq integer not null,
  op text not null,
  source_key text,
  parent_key text,
  hash bytea,
  content jsonb,
  before jsonb,
  errors jsonb,
  constraint import_row_pk PRIMARY KEY (tenant_id, run_id, seq),
  constraint import_row_change_is_whole CHECK (((op <> ALL (ARRAY['create'::text, 'update'::text, 'move'::text, 'deactivate'::text, 'reactivate'::text])) OR ((source_key IS NOT NULL) AND (content IS NOT NULL) AND ((before IS NULL) = (op = 'create'::text))))),
  constraint import_row_op_known CHECK ((op = ANY (ARRAY['create'::text, 'update'::text, 'move'::text, 'deactivate'::text, 'reactivate'::text, 'keep'::text, 'miss'::text, 'leave'::text, 'gone'::text, 'invalid'::text])))
);
CREATE INDEX import_row_changed ON universe.import_row USING btree (tenant_id, source_key, run_id) WHERE (before IS NOT NULL);
CREATE TRIGGER import_row_kept BEFORE UPDATE OF tenant_id, run_id ON universe.import_row FOR EACH STATEMENT EXECUTE FUNCTION universe.keep_import_row();
alter table universe.import_row enable row level security;
alter table universe.import_row force row level security;
create policy postern_universe_delete on universe.import_row as permissive for delete to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_insert on universe.import_row as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.import_row as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.import_row as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.import_row as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table universe.import_row to postern_universe;
comment on table universe.import_row is 'The rows of a run that its connector did not bring before in this form: staged as if each creates something, then compared.';
comment on column universe.import_row.seq is 'Rows are applied in this order: the depth times ten million, and the number of the row in the source.';
comment on column universe.import_row.op is 'keep: stored like this already. miss: the source lacks it. leave: the source lacks it, and another connector brings it. gone: not yet decided.';
comment on column universe.import_row.errors is 'Why the row was rejected: objects with field, code, message and excerpt.';

create table universe.node (
  tenant_id uuid not null,
  id uuid not null,
  hierarchy_id uuid not null,
  number integer not null,
  node_key text not null,
  parent_id uuid,
  name text not null,
  level_name text,
  head jsonb,
  status text not null,
  valid_from date,
  valid_to date,
  entity_ids uuid[] not null default '{}'::uuid[],
  path text not null,
  depth integer not null generated always as ((char_length(path) / 8)) stored,
  since_version integer not null,
  constraint node_pk PRIMARY KEY (tenant_id, id),
  constraint node_key_unique UNIQUE (tenant_id, hierarchy_id, node_key),
  constraint node_path_unique UNIQUE (tenant_id, hierarchy_id, path),
  constraint node_entity_ids_few CHECK ((cardinality(entity_ids) <= 50)),
  constraint node_head_is_object CHECK ((jsonb_typeof(head) = 'object'::text)),
  constraint node_key_length CHECK (((char_length(node_key) >= 1) AND (char_length(node_key) <= 255))),
  constraint node_level_name_length CHECK (((char_length(level_name) >= 1) AND (char_length(level_name) <= 255))),
  constraint node_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 255))),
  constraint node_number_positive CHECK ((number > 0)),
  constraint node_path_form CHECK (((path ~ '^([0-9a-f]{8}){1,32}$'::text) AND ("right"(path, 8) = universe.path_label(number)))),
  constraint node_since_version_positive CHECK ((since_version > 0)),
  constraint node_status_known CHECK ((status = ANY (ARRAY['active'::text, 'inactive'::text]))),
  constraint node_valid_from_range CHECK (((valid_from >= '1900-01-01'::date) AND (valid_from <= '9999-12-31'::date))),
  constraint node_valid_in_order CHECK ((valid_from <= valid_to)),
  constraint node_valid_to_range CHECK (((valid_to >= '1900-01-01'::date) AND (valid_to <= '9999-12-31'::date))),
  constraint node_hierarchy_fk FOREIGN KEY (tenant_id, hierarchy_id) REFERENCES universe.hierarchy(tenant_id, id)
);
CREATE INDEX node_by_change ON universe.node USING btree (tenant_id, hierarchy_id, since_version, id);
CREATE INDEX node_by_depth ON universe.node USING btree (tenant_id, hierarchy_id, depth, path);
CREATE INDEX node_by_name ON universe.node USING btree (tenant_id, hierarchy_id, name, id);
CREATE INDEX node_by_parent ON universe.node USING btree (tenant_id, parent_id);
CREATE TRIGGER node_forgets_hashes AFTER UPDATE ON universe.node REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION universe.forget_source_hashes();
CREATE TRIGGER node_guard BEFORE UPDATE ON universe.node FOR EACH ROW EXECUTE FUNCTION universe.guard_node();
CREATE TRIGGER node_history_after_update AFTER UPDATE ON universe.node REFERENCING OLD TABLE AS old_node NEW TABLE AS new_node FOR EACH STATEMENT EXECUTE FUNCTION universe.keep_node_history();
CREATE TRIGGER node_links_after_insert AFTER INSERT ON universe.node REFERENCING NEW TABLE AS new_node FOR EACH STATEMENT EXECUTE FUNCTION universe.link_new_nodes();
CREATE TRIGGER node_needed BEFORE DELETE ON universe.node FOR EACH ROW EXECUTE FUNCTION universe.keep_needed_node();
CREATE TRIGGER node_never_emptied BEFORE TRUNCATE ON universe.node FOR EACH STATEMENT EXECUTE FUNCTION universe.keep_needed_node();
CREATE TRIGGER note_deletes AFTER DELETE ON universe.node REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('hierarchy_node', 'id', 'null');
CREATE TRIGGER note_inserts AFTER INSERT ON universe.node REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('hierarchy_node', 'id', 'null');
CREATE TRIGGER note_updates AFTER UPDATE ON universe.node REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('hierarchy_node', 'id', 'null');
alter table universe.node enable row level security;
alter table universe.node force row level security;
create policy postern_universe_insert on universe.node as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.node as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.node as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.node as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.node to postern_universe;
comment on table universe.node is 'A unit of a hierarchy as it is now. Never deleted: a unit that is gone is inactive.';
comment on column universe.node.path is 'The labels of the numbers from the root down to the node.';
comment on column universe.node.since_version is 'The version of the hierarchy since which the node is, and stands, as it does.';

create table universe.node_entity (
  tenant_id uuid not null,
  node_id uuid not null,
  entity_id uuid not null,
  constraint node_entity_pk PRIMARY KEY (tenant_id, node_id, entity_id)
);
CREATE INDEX node_entity_by_entity ON universe.node_entity USING btree (tenant_id, entity_id);
CREATE TRIGGER node_entity_of_both_when_changed AFTER UPDATE ON universe.node_entity REFERENCING NEW TABLE AS new_link FOR EACH STATEMENT EXECUTE FUNCTION universe.guard_node_entity();
CREATE TRIGGER node_entity_of_both_when_made AFTER INSERT ON universe.node_entity REFERENCING NEW TABLE AS new_link FOR EACH STATEMENT EXECUTE FUNCTION universe.guard_node_entity();
alter table universe.node_entity enable row level security;
alter table universe.node_entity force row level security;
create policy postern_universe_delete on universe.node_entity as permissive for delete to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_insert on universe.node_entity as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.node_entity as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.node_entity as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table universe.node_entity to postern_universe;
comment on table universe.node_entity is 'The links of universe.node.entity_ids as rows. Written by its triggers alone.';

create table universe.node_history (
  tenant_id uuid not null,
  node_id uuid not null,
  hierarchy_id uuid not null,
  since_version integer not null,
  until_version integer not null,
  parent_id uuid,
  name text not null,
  level_name text,
  head jsonb,
  status text not null,
  valid_from date,
  valid_to date,
  entity_ids uuid[] not null,
  path text not null,
  depth integer not null generated always as ((char_length(path) / 8)) stored,
  constraint node_history_pk PRIMARY KEY (tenant_id, node_id, since_version),
  constraint node_history_in_order CHECK (((0 < since_version) AND (since_version < until_version))),
  constraint node_history_node_fk FOREIGN KEY (tenant_id, node_id) REFERENCES universe.node(tenant_id, id)
);
CREATE INDEX node_history_by_change ON universe.node_history USING btree (tenant_id, hierarchy_id, since_version, node_id);
CREATE INDEX node_history_by_depth ON universe.node_history USING btree (tenant_id, hierarchy_id, depth, path);
CREATE INDEX node_history_by_name ON universe.node_history USING btree (tenant_id, hierarchy_id, name, node_id);
CREATE INDEX node_history_by_path ON universe.node_history USING btree (tenant_id, hierarchy_id, path);
CREATE TRIGGER node_history_never_emptied BEFORE TRUNCATE ON universe.node_history FOR EACH STATEMENT EXECUTE FUNCTION tenancy.refuse_change();
CREATE TRIGGER node_history_only_grows BEFORE DELETE OR UPDATE ON universe.node_history FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
alter table universe.node_history enable row level security;
alter table universe.node_history force row level security;
create policy postern_universe_insert on universe.node_history as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.node_history as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.node_history as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select on table universe.node_history to postern_universe;
comment on table universe.node_history is 'What a node was in the versions from since_version to before until_version.';

create table universe.person (
  tenant_id uuid not null,
  id uuid not null,
  external_id text not null,
  name text not null,
  email text,
  title text,
  active boolean not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  version integer not null default 1,
  folded_name text not null generated always as (lower(name)) stored,
  constraint person_pk PRIMARY KEY (tenant_id, id),
  constraint person_email_unique UNIQUE (tenant_id, email) DEFERRABLE,
  constraint person_external_id_unique UNIQUE (tenant_id, external_id),
  constraint person_email_form CHECK (((email = lower(email)) AND ((char_length(email) >= 3) AND (char_length(email) <= 254)))),
  constraint person_external_id_length CHECK (((char_length(external_id) >= 1) AND (char_length(external_id) <= 255))),
  constraint person_name_length CHECK (((char_length(name) >= 1) AND (char_length(name) <= 255))),
  constraint person_title_length CHECK (((char_length(title) >= 1) AND (char_length(title) <= 255))),
  constraint person_version_positive CHECK ((version > 0))
);
CREATE INDEX person_by_change ON universe.person USING btree (tenant_id, updated_at, id);
CREATE INDEX person_by_folded_name ON universe.person USING btree (tenant_id, folded_name);
CREATE INDEX person_by_name ON universe.person USING btree (tenant_id, name, id);
CREATE TRIGGER note_deletes AFTER DELETE ON universe.person REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('person', 'id', 'r.version');
CREATE TRIGGER note_inserts AFTER INSERT ON universe.person REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('person', 'id', 'r.version');
CREATE TRIGGER note_updates AFTER UPDATE ON universe.person REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('person', 'id', 'r.version');
CREATE TRIGGER person_forgets_hashes AFTER UPDATE ON universe.person REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION universe.forget_source_hashes();
CREATE TRIGGER person_guard BEFORE UPDATE ON universe.person FOR EACH ROW EXECUTE FUNCTION universe.guard_person();
CREATE TRIGGER person_is_published AFTER UPDATE ON universe.person REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION universe.publish_changed_people();
alter table universe.person enable row level security;
alter table universe.person force row level security;
create policy postern_universe_insert on universe.person as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.person as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.person as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.person as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.person to postern_universe;
comment on table universe.person is 'Someone whom a source knows. Never deleted: who has left is not active.';
comment on column universe.person.folded_name is 'The name in lower case.';

create table universe.reference_counter (
  tenant_id uuid not null,
  last_number integer not null,
  constraint reference_counter_pk PRIMARY KEY (tenant_id),
  constraint reference_counter_not_negative CHECK ((last_number >= 0))
);
alter table universe.reference_counter enable row level security;
alter table universe.reference_counter force row level security;
create policy postern_universe_insert on universe.reference_counter as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.reference_counter as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.reference_counter as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.reference_counter as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.reference_counter to postern_universe;
comment on table universe.reference_counter is 'The last number given out in AE-<number>, one row a tenant. Its lock is the tenant''s lock for changes of the tree.';

create table universe.source_connector (
  tenant_id uuid not null,
  connector_id text not null,
  telling integer not null,
  retired_at timestamp(3) with time zone,
  seen_at timestamp(3) with time zone,
  seen_run_id uuid,
  is_authoritative boolean not null default false,
  constraint source_connector_pk PRIMARY KEY (tenant_id, connector_id),
  constraint source_connector_id_form CHECK ((connector_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'::text)),
  constraint source_connector_seen_whole CHECK (((seen_at IS NULL) = (seen_run_id IS NULL))),
  constraint source_connector_telling_positive CHECK ((telling > 0))
);
CREATE TRIGGER source_connector_publishes_people AFTER UPDATE ON universe.source_connector FOR EACH ROW WHEN (((old.is_authoritative AND (old.retired_at IS NULL)) <> (new.is_authoritative AND (new.retired_at IS NULL)))) EXECUTE FUNCTION universe.publish_people_of_connector();
alter table universe.source_connector enable row level security;
alter table universe.source_connector force row level security;
create policy postern_universe_insert on universe.source_connector as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.source_connector as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.source_connector as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.source_connector as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.source_connector to postern_universe;
comment on table universe.source_connector is 'Connectors that bring entities. What an entity was made by that is not among them is no source.';
comment on column universe.source_connector.telling is 'The number of the last telling of the connector that was taken in: one with a lower number comes too late.';
comment on column universe.source_connector.retired_at is 'Since when it brings nothing, and is no source of anything.';
comment on column universe.source_connector.seen_at is 'When its source was last read to its end, hence when it last had each entity that is not missing.';
comment on column universe.source_connector.is_authoritative is 'Whether people whom it brings have access only while active.';

create table universe.source_row (
  tenant_id uuid not null,
  scope text not null,
  source_key text not null,
  connector_id text not null,
  hash bytea,
  missing_since timestamp(3) with time zone,
  constraint source_row_pk PRIMARY KEY (tenant_id, scope, source_key, connector_id),
  constraint source_row_missing_has_no_hash CHECK (((missing_since IS NULL) OR (hash IS NULL)))
);
CREATE INDEX source_row_by_connector ON universe.source_row USING btree (tenant_id, connector_id, scope, source_key);
CREATE INDEX source_row_missing ON universe.source_row USING btree (tenant_id, connector_id, scope, source_key) WHERE (missing_since IS NOT NULL);
CREATE TRIGGER source_row_publishes_deleted AFTER DELETE ON universe.source_row REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION universe.publish_people_of_rows();
CREATE TRIGGER source_row_publishes_new AFTER INSERT ON universe.source_row REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION universe.publish_people_of_rows();
alter table universe.source_row enable row level security;
alter table universe.source_row force row level security;
create policy postern_universe_delete on universe.source_row as permissive for delete to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_insert on universe.source_row as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.source_row as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.source_row as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.source_row as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select, update on table universe.source_row to postern_universe;
comment on table universe.source_row is 'What connectors have brought.';
comment on column universe.source_row.hash is 'Of the row as the source had it when the stored resource was equal to it. Null after any other write of the resource.';
comment on column universe.source_row.missing_since is 'Since when the source lacks it.';

create table universe.staged_node (
  tenant_id uuid not null,
  run_id uuid not null,
  index integer not null,
  node_id uuid not null,
  is_new boolean not null,
  node_key text not null,
  parent_key text,
  name text not null,
  level_name text,
  head jsonb,
  status text not null,
  valid_from date,
  valid_to date,
  entity_keys text[] not null,
  constraint staged_node_pk PRIMARY KEY (tenant_id, run_id, index),
  constraint staged_node_key_unique UNIQUE (tenant_id, run_id, node_key)
);
alter table universe.staged_node enable row level security;
alter table universe.staged_node force row level security;
create policy postern_universe_delete on universe.staged_node as permissive for delete to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_insert on universe.staged_node as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.staged_node as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.staged_node as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table universe.staged_node to postern_universe;
comment on table universe.staged_node is 'The rows of a push while its transaction lasts: compared and applied as a set, gone at its end.';

create table universe.test_procedure (
  tenant_id uuid not null,
  id uuid not null,
  number integer not null,
  reference text not null generated always as (('TP-'::text || lpad((number)::text, GREATEST(4, char_length((number)::text)), '0'::text))) stored,
  external_id text not null,
  title text not null,
  control_ref text,
  objective text,
  procedure_text text,
  method text,
  test_type text,
  entity_ids uuid[] not null default '{}'::uuid[],
  engagement_ref text,
  period_start_on date,
  period_end_on date,
  population_size integer,
  sample_size integer,
  tester jsonb,
  reviewer jsonb,
  due_on date,
  status text not null,
  conclusion text,
  custom jsonb not null default '{}'::jsonb,
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamp(3) with time zone not null default now(),
  updated_at timestamp(3) with time zone not null default now(),
  version integer not null default 1,
  constraint test_procedure_pk PRIMARY KEY (tenant_id, id),
  constraint test_procedure_external_id_unique UNIQUE (tenant_id, external_id),
  constraint test_procedure_number_unique UNIQUE (tenant_id, number),
  constraint test_procedure_reference_unique UNIQUE (tenant_id, reference),
  constraint test_procedure_conclusion_known CHECK ((conclusion = ANY (ARRAY['effective'::text, 'ineffective'::text, 'no_population'::text, 'not_concluded'::text]))),
  constraint test_procedure_control_ref_length CHECK (((char_length(control_ref) >= 1) AND (char_length(control_ref) <= 255))),
  constraint test_procedure_created_by_type_known CHECK ((created_by_type = ANY (ARRAY['api_key'::text, 'user'::text, 'operator'::text, 'connector'::text]))),
  constraint test_procedure_custom_is_object CHECK ((jsonb_typeof(custom) = 'object'::text)),
  constraint test_procedure_due_on_range CHECK (((due_on >= '1900-01-01'::date) AND (due_on <= '9999-12-31'::date))),
  constraint test_procedure_engagement_ref_length CHECK (((char_length(engagement_ref) >= 1) AND (char_length(engagement_ref) <= 255))),
  constraint test_procedure_entity_ids_few CHECK ((cardinality(entity_ids) <= 50)),
  constraint test_procedure_external_id_length CHECK (((char_length(external_id) >= 1) AND (char_length(external_id) <= 255))),
  constraint test_procedure_method_known CHECK ((method = ANY (ARRAY['examine'::text, 'interview'::text, 'test'::text]))),
  constraint test_procedure_number_positive CHECK ((number > 0)),
  constraint test_procedure_objective_length CHECK ((char_length(objective) <= 20000)),
  constraint test_procedure_period_end_range CHECK (((period_end_on >= '1900-01-01'::date) AND (period_end_on <= '9999-12-31'::date))),
  constraint test_procedure_period_in_order CHECK ((period_start_on <= period_end_on)),
  constraint test_procedure_period_start_range CHECK (((period_start_on >= '1900-01-01'::date) AND (period_start_on <= '9999-12-31'::date))),
  constraint test_procedure_population_not_negative CHECK ((population_size >= 0)),
  constraint test_procedure_reviewer_is_object CHECK ((jsonb_typeof(reviewer) = 'object'::text)),
  constraint test_procedure_sample_in_population CHECK (((sample_size >= 0) AND (sample_size <= population_size))),
  constraint test_procedure_status_known CHECK ((status = ANY (ARRAY['not_started'::text, 'in_progress'::text, 'in_review'::text, 'completed'::text]))),
  constraint test_procedure_test_type_known CHECK ((test_type = ANY (ARRAY['design'::text, 'operating_effectiveness'::text]))),
  constraint test_procedure_tester_is_object CHECK ((jsonb_typeof(tester) = 'object'::text)),
  constraint test_procedure_text_length CHECK ((char_length(procedure_text) <= 20000)),
  constraint test_procedure_title_length CHECK (((char_length(title) >= 1) AND (char_length(title) <= 255))),
  constraint test_procedure_two_people CHECK (((tester <> reviewer) AND ((tester ->> 'person_id'::text) IS DISTINCT FROM COALESCE((reviewer ->> 'person_id'::text), ''::text)) AND (lower((tester ->> 'email'::text)) IS DISTINCT FROM COALESCE(lower((reviewer ->> 'email'::text)), ''::text)))),
  constraint test_procedure_version_positive CHECK ((version > 0))
);
CREATE INDEX test_procedure_by_change ON universe.test_procedure USING btree (tenant_id, updated_at, number);
CREATE INDEX test_procedure_by_due ON universe.test_procedure USING btree (tenant_id, COALESCE(due_on, 'infinity'::date), number);
CREATE INDEX test_procedure_by_title ON universe.test_procedure USING btree (tenant_id, title, number);
CREATE TRIGGER note_deletes AFTER DELETE ON universe.test_procedure REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('test_procedure', 'id', 'r.version');
CREATE TRIGGER note_inserts AFTER INSERT ON universe.test_procedure REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('test_procedure', 'id', 'r.version');
CREATE TRIGGER note_updates AFTER UPDATE ON universe.test_procedure REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION tenancy.note_changes('test_procedure', 'id', 'r.version');
CREATE TRIGGER test_procedure_forgets_hashes AFTER UPDATE ON universe.test_procedure REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION universe.forget_source_hashes();
CREATE TRIGGER test_procedure_guard BEFORE UPDATE ON universe.test_procedure FOR EACH ROW EXECUTE FUNCTION universe.guard_test_procedure();
CREATE TRIGGER test_procedure_links_after_insert AFTER INSERT ON universe.test_procedure REFERENCING NEW TABLE AS new_procedure FOR EACH STATEMENT EXECUTE FUNCTION universe.link_test_procedures();
CREATE TRIGGER test_procedure_links_after_update AFTER UPDATE ON universe.test_procedure REFERENCING NEW TABLE AS new_procedure FOR EACH STATEMENT EXECUTE FUNCTION universe.link_test_procedures();
alter table universe.test_procedure enable row level security;
alter table universe.test_procedure force row level security;
create policy postern_universe_insert on universe.test_procedure as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.test_procedure as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.test_procedure as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.test_procedure as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.test_procedure to postern_universe;
comment on table universe.test_procedure is 'What an auditor tests, as its source describes it. Never deleted: evidence points at it.';

create table universe.test_procedure_counter (
  tenant_id uuid not null,
  last_number integer not null,
  constraint test_procedure_counter_pk PRIMARY KEY (tenant_id),
  constraint test_procedure_counter_not_negative CHECK ((last_number >= 0))
);
alter table universe.test_procedure_counter enable row level security;
alter table universe.test_procedure_counter force row level security;
create policy postern_universe_insert on universe.test_procedure_counter as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.test_procedure_counter as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_update on universe.test_procedure_counter as permissive for update to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.test_procedure_counter as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant insert, select, update on table universe.test_procedure_counter to postern_universe;
comment on table universe.test_procedure_counter is 'The last number given out in TP-<number>, one row a tenant.';

create table universe.test_procedure_entity (
  tenant_id uuid not null,
  test_procedure_id uuid not null,
  entity_id uuid not null,
  constraint test_procedure_entity_pk PRIMARY KEY (tenant_id, test_procedure_id, entity_id),
  constraint test_procedure_entity_entity_fk FOREIGN KEY (tenant_id, entity_id) REFERENCES universe.entity(tenant_id, id),
  constraint test_procedure_entity_procedure_fk FOREIGN KEY (tenant_id, test_procedure_id) REFERENCES universe.test_procedure(tenant_id, id)
);
CREATE INDEX test_procedure_entity_by_entity ON universe.test_procedure_entity USING btree (tenant_id, entity_id);
alter table universe.test_procedure_entity enable row level security;
alter table universe.test_procedure_entity force row level security;
create policy postern_universe_delete on universe.test_procedure_entity as permissive for delete to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_insert on universe.test_procedure_entity as permissive for insert to postern_universe with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy postern_universe_select on universe.test_procedure_entity as permissive for select to postern_universe using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
create policy tenant_only on universe.test_procedure_entity as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
grant delete, insert, select on table universe.test_procedure_entity to postern_universe;
comment on table universe.test_procedure_entity is 'The links of universe.test_procedure.entity_ids as rows. Written by its triggers alone.';

CREATE OR REPLACE FUNCTION universe.forget_source_hashes()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  -- `execute` plans each time, and arrays are looked up by the index: a plan for few rows is slow for many.
  case tg_table_name
    when 'entity' then
      -- Where it comes from says nothing of its content.
      execute '
        update universe.source_row source
        set hash = null
        where source.tenant_id = any (array(select distinct after.tenant_id from new_rows after))
          and source.scope = ''auditable_entities'' and source.hash is not null
          and source.source_key = any (array(
            select after.external_id
            from new_rows after
            join old_rows before on before.tenant_id = after.tenant_id and before.id = after.id
            where (after.source_connector_id, after.source_first_seen_at, after.source_last_seen_at, after.source_missing_since)
              is not distinct from
              (before.source_connector_id, before.source_first_seen_at, before.source_last_seen_at, before.source_missing_since)
          ))';
    when 'node' then
      execute '
        update universe.source_row source
        set hash = null
        from (
          select after.tenant_id, after.hierarchy_id, array_agg(after.node_key) as keys
          from new_rows after
          group by after.tenant_id, after.hierarchy_id
        ) as changed
        join universe.hierarchy h on h.tenant_id = changed.tenant_id and h.id = changed.hierarchy_id
        where source.tenant_id = changed.tenant_id and source.scope = ''org_structure/'' || h.key
          and source.source_key = any (changed.keys) and source.hash is not null';
    when 'person' then
      execute '
        update universe.source_row source
        set hash = null
        where source.tenant_id = any (array(select distinct after.tenant_id from new_rows after))
          and source.scope = ''people'' and source.hash is not null
          and source.source_key = any (array(select after.external_id from new_rows after))';
    when 'test_procedure' then
      execute '
        update universe.source_row source
        set hash = null
        where source.tenant_id = any (array(select distinct after.tenant_id from new_rows after))
          and source.scope = ''test_procedures'' and source.hash is not null
          and source.source_key = any (array(select after.external_id from new_rows after))';
  end case;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.guard_entity()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if (new.tenant_id, new.id, new.number, new.created_at)
    is distinct from (old.tenant_id, old.id, old.number, old.created_at)
    or (new.created_by_type, new.created_by_id, new.created_by_label)
    is distinct from (old.created_by_type, old.created_by_id, old.created_by_label)
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_identity_fixed',
      message = 'the identity and the origin of an entity never change';
  end if;

  if new.version <> old.version + 1 then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_version_counts',
      message = 'each change of an entity raises its version by one';
  end if;

  if new.status <> old.status
    and (old.status, new.status) not in (('draft', 'active'), ('active', 'archived'), ('archived', 'active'))
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_status_transition',
      message = 'the status cannot move in this way';
  end if;

  return new;
end
$function$;

CREATE OR REPLACE FUNCTION universe.guard_entity_path()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  perform
  from new_path placed
  where not exists (
    select from universe.entity entity where entity.tenant_id = placed.tenant_id and entity.id = placed.entity_id
  )
  limit 1;
  if found then
    raise exception using
      errcode = 'foreign_key_violation', schema = 'universe', table = 'entity_path', constraint = 'entity_path_of_entity',
      message = 'the path belongs to no entity';
  end if;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.guard_entity_tree()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  moved record;
begin
  for moved in execute '
    select after.tenant_id, array_agg(after.id) as ids
    from new_entity after
    join old_entity before on before.tenant_id = after.tenant_id and before.id = after.id
    where after.parent_id is distinct from before.parent_id
    group by after.tenant_id'
  loop
    perform universe.place_entities(moved.tenant_id, moved.ids);
  end loop;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.guard_hierarchy_tree()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
 SET enable_nestloop TO 'off'
AS $function$
begin
  perform
  from universe.node n
  left join universe.node parent on parent.tenant_id = n.tenant_id and parent.id = n.parent_id
  where n.tenant_id = new.tenant_id and n.hierarchy_id = new.hierarchy_id
    and (
      n.path <> coalesce(parent.path, '') || universe.path_label(n.number)
      or n.parent_id is not null and parent.id is null
      or parent.hierarchy_id <> n.hierarchy_id
      or n.since_version > new.version
    )
  limit 1;
  if found then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'node', constraint = 'node_tree',
      message = 'each node stands below its parent';
  end if;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.guard_node()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if (new.tenant_id, new.id, new.hierarchy_id, new.number, new.node_key)
    is distinct from (old.tenant_id, old.id, old.hierarchy_id, old.number, old.node_key)
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'node', constraint = 'node_identity_fixed',
      message = 'the identity of a node never changes';
  end if;
  if new.since_version < old.since_version then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'node', constraint = 'node_versions_rise',
      message = 'the versions of a node go forward';
  end if;
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION universe.guard_node_entity()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
 SET enable_seqscan TO 'off'
AS $function$
begin
  perform
  from new_link link
  where (select 1 from universe.node n where n.tenant_id = link.tenant_id and n.id = link.node_id) is null
    or (select 1 from universe.entity e where e.tenant_id = link.tenant_id and e.id = link.entity_id) is null
  limit 1;
  if found then
    raise exception using
      errcode = 'foreign_key_violation', schema = 'universe', table = 'node_entity', constraint = 'node_entity_of_both',
      message = 'a link is that of a node and an entity';
  end if;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.guard_person()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if (new.tenant_id, new.id, new.external_id, new.created_at)
    is distinct from (old.tenant_id, old.id, old.external_id, old.created_at)
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'person', constraint = 'person_identity_fixed',
      message = 'the identity of a person never changes';
  end if;
  if new.version <> old.version + 1 then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'person', constraint = 'person_version_counts',
      message = 'each change of a person raises the version by one';
  end if;
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION universe.guard_test_procedure()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if (new.tenant_id, new.id, new.number, new.external_id, new.created_at)
    is distinct from (old.tenant_id, old.id, old.number, old.external_id, old.created_at)
    or (new.created_by_type, new.created_by_id, new.created_by_label)
    is distinct from (old.created_by_type, old.created_by_id, old.created_by_label)
  then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'test_procedure',
      constraint = 'test_procedure_identity_fixed',
      message = 'the identity and the origin of a test procedure never change';
  end if;
  if new.version <> old.version + 1 then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'test_procedure',
      constraint = 'test_procedure_version_counts',
      message = 'each change of a test procedure raises its version by one';
  end if;
  if new.status = 'not_started' and old.status <> 'not_started' or new.status = 'in_review' and old.status = 'completed' then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'test_procedure',
      constraint = 'test_procedure_status_transition',
      message = 'the status cannot move in this way';
  end if;
  return new;
end
$function$;

CREATE OR REPLACE FUNCTION universe.keep_import_row()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  raise exception using
    errcode = 'insufficient_privilege', schema = 'universe', table = 'import_row', constraint = 'import_row_kept',
    message = 'the row stays with the run that it was made for';
end
$function$;

CREATE OR REPLACE FUNCTION universe.keep_needed_entity()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if tg_op = 'DELETE' then
    if not exists (select from universe.entity child where child.tenant_id = old.tenant_id and child.parent_id = old.id)
      and not exists (
        select from universe.entity_path place where place.tenant_id = old.tenant_id and place.entity_id = old.id
      )
      and not exists (
        select from universe.node_entity link where link.tenant_id = old.tenant_id and link.entity_id = old.id
      )
    then
      return old;
    end if;
  end if;
  raise exception using
    errcode = 'foreign_key_violation', schema = 'universe', table = 'entity', constraint = 'entity_needed',
    message = 'others need the entity';
end
$function$;

CREATE OR REPLACE FUNCTION universe.keep_needed_node()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if tg_op = 'DELETE' then
    if not exists (select from universe.node_entity link where link.tenant_id = old.tenant_id and link.node_id = old.id) then
      return old;
    end if;
  end if;
  raise exception using
    errcode = 'foreign_key_violation', schema = 'universe', table = 'node', constraint = 'node_needed',
    message = 'others need the node';
end
$function$;

CREATE OR REPLACE FUNCTION universe.keep_node_history()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  insert into universe.node_history (
    tenant_id, node_id, hierarchy_id, since_version, until_version, parent_id, name, level_name, head, status,
    valid_from, valid_to, entity_ids, path
  )
  select
    before.tenant_id, before.id, before.hierarchy_id, before.since_version, after.since_version, before.parent_id,
    before.name, before.level_name, before.head, before.status, before.valid_from, before.valid_to, before.entity_ids,
    before.path
  from old_node before
  join new_node after on after.tenant_id = before.tenant_id and after.id = before.id
  where after.since_version <> before.since_version;

  delete from universe.node_entity link
  using old_node before, new_node after
  where after.tenant_id = before.tenant_id and after.id = before.id
    and after.entity_ids is distinct from before.entity_ids
    and link.tenant_id = before.tenant_id and link.node_id = before.id
    and link.entity_id <> all (after.entity_ids);

  insert into universe.node_entity (tenant_id, node_id, entity_id)
  select after.tenant_id, after.id, linked.entity_id
  from new_node after
  join old_node before on before.tenant_id = after.tenant_id and before.id = after.id
  cross join unnest(after.entity_ids) as linked (entity_id)
  where after.entity_ids is distinct from before.entity_ids
  on conflict do nothing;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.link_new_nodes()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  insert into universe.node_entity (tenant_id, node_id, entity_id)
  select made.tenant_id, made.id, linked.entity_id
  from new_node made
  cross join unnest(made.entity_ids) as linked (entity_id)
  on conflict do nothing;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.link_test_procedures()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if tg_op = 'UPDATE' then
    delete from universe.test_procedure_entity link
    using new_procedure after
    where link.tenant_id = after.tenant_id and link.test_procedure_id = after.id
      and link.entity_id <> all (after.entity_ids);
  end if;
  insert into universe.test_procedure_entity (tenant_id, test_procedure_id, entity_id)
  select after.tenant_id, after.id, linked.entity_id
  from new_procedure after
  cross join unnest(after.entity_ids) as linked (entity_id)
  on conflict do nothing;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.path_label(number integer)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN lpad(to_hex(number), 8, '0'::text);
grant execute on routine universe.path_label(integer) to postern_universe;

CREATE OR REPLACE FUNCTION universe.place_entities(tenant uuid, moved uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  too_deep boolean;
  unreached boolean;
begin
  -- The tenant's lock: two changes that are sound alone cannot close a circle together. What follows is a later
  -- statement, and sees what the holder of the lock before has committed.
  perform from universe.reference_counter counter where counter.tenant_id = tenant for update;

  with recursive moved_entity as materialized (
    select entity.id, entity.parent_id, universe.path_label(entity.number) as label
    from unnest(moved) as one (id)
    join universe.entity entity on entity.tenant_id = tenant and entity.id = one.id
  ),
  placed as (
    select top.id, coalesce(above.path, '') || top.label as path, coalesce(above.depth, 0) + 1 as depth
    from moved_entity top
    left join universe.entity_path above on above.tenant_id = tenant and above.entity_id = top.parent_id
    where top.parent_id is null
      or above.path is not null and not exists (
        select
        from generate_series(1, above.depth) as step (at)
        where substr(above.path, step.at * 8 - 7, 8) in (select other.label from moved_entity other)
      )
    union all
    select child.id, placed.path || universe.path_label(child.number), placed.depth + 1
    from placed
    join universe.entity child on child.tenant_id = tenant and child.parent_id = placed.id
    where placed.depth <= 12
  ),
  written as (
    insert into universe.entity_path as known (tenant_id, entity_id, path)
    select tenant, placed.id, placed.path
    from placed
    where placed.depth <= 12
    on conflict (tenant_id, entity_id) do update
    set path = excluded.path
    where known.path <> excluded.path
  )
  select
    coalesce(max(placed.depth), 0) > 12,
    count(*) filter (where placed.id = any (moved)) < cardinality(moved)
  into too_deep, unreached
  from placed;

  if too_deep then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_tree_depth',
      message = 'the tree of entities is at most 12 deep';
  end if;
  if unreached then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_tree_acyclic',
      message = 'no entity is above itself';
  end if;
end
$function$;
grant execute on routine universe.place_entities(uuid,uuid[]) to postern_universe;

CREATE OR REPLACE FUNCTION universe.place_new_entities()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
 SET enable_nestloop TO 'off'
AS $function$
declare
  too_deep boolean;
  unreached boolean;
begin
  -- The lock of each tenant, as in universe.place_entities.
  perform
  from universe.reference_counter counter
  where counter.tenant_id in (select made.tenant_id from new_entity made)
  for update;

  with recursive made as materialized (
    select made.tenant_id, made.id, made.parent_id, universe.path_label(made.number) as label from new_entity made
  ),
  -- Once a parent, and by an index: PostgreSQL may take the tenant's entities for a few.
  above as materialized (
    select parent.tenant_id, parent.parent_id, place.path, place.depth
    from (select distinct made.tenant_id, made.parent_id from made where made.parent_id is not null) as parent
    cross join lateral (
      select known.path, known.depth
      from universe.entity_path known
      where known.tenant_id = parent.tenant_id and known.entity_id = parent.parent_id
      limit 1
    ) as place
  ),
  placed as (
    select top.tenant_id, top.id, coalesce(above.path, '') || top.label as path, coalesce(above.depth, 0) + 1 as depth
    from made top
    left join above on above.tenant_id = top.tenant_id and above.parent_id = top.parent_id
    where top.parent_id is null or above.path is not null
    union all
    select child.tenant_id, child.id, placed.path || child.label, placed.depth + 1
    from placed
    join made child on child.tenant_id = placed.tenant_id and child.parent_id = placed.id
    where placed.depth <= 12
  ),
  written as (
    insert into universe.entity_path (tenant_id, entity_id, path)
    select placed.tenant_id, placed.id, placed.path
    from placed
    where placed.depth <= 12
  )
  select coalesce(max(placed.depth), 0) > 12, count(*) < (select count(*) from made)
  into too_deep, unreached
  from placed;

  -- Where something above moves in the same statement, its path is that of before. It is placed anew, with all that hangs below
  -- it, by the trigger for what has moved: too deep is what is so by the parents as they are now.
  if too_deep then
    with recursive above as (
      select made.tenant_id, made.parent_id, 1 as depth
      from new_entity made
      union
      select entity.tenant_id, entity.parent_id, above.depth + 1
      from above
      join universe.entity entity on entity.tenant_id = above.tenant_id and entity.id = above.parent_id
      where above.depth <= 12
    )
    select max(above.depth) > 12 into too_deep from above;
    if not too_deep then
      return null;
    end if;
  end if;

  if too_deep then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_tree_depth',
      message = 'the tree of entities is at most 12 deep';
  end if;
  if unreached then
    raise exception using
      errcode = 'check_violation', schema = 'universe', table = 'entity', constraint = 'entity_tree_acyclic',
      message = 'no entity is above itself, or below what is not there';
  end if;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.publish_changed_people()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  execute '
    select universe.publish_people(changed.tenant_id, changed.ids)
    from (
      select after.tenant_id, array_agg(after.id) as ids
      from new_rows after
      join old_rows before on before.tenant_id = after.tenant_id and before.id = after.id
      where (after.active, after.email) is distinct from (before.active, before.email)
        and exists (
          select from universe.source_connector c where c.tenant_id = after.tenant_id and c.is_authoritative
        )
      group by after.tenant_id
    ) as changed';
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.publish_people(of_tenant uuid, ids uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
 SET enable_nestloop TO 'on'
AS $function$
begin
  with person as materialized (
    select p.id, p.active, p.external_id, p.email, exists (
        select
        from universe.source_row s
        join universe.source_connector c on c.tenant_id = s.tenant_id and c.connector_id = s.connector_id
        where s.tenant_id = p.tenant_id and s.scope = 'people' and s.source_key = p.external_id
          and c.is_authoritative and c.retired_at is null
      ) as is_brought
    from universe.person p
    where p.tenant_id = of_tenant and p.id = any (ids)
  ),
  name as materialized (
    select person.id, person.active, tenancy.hash_name(of_tenant, held.attribute, held.name) as hash
    from person
    cross join lateral (values ('externalId', person.external_id), ('emails.value', person.email)) as held (attribute, name)
    where person.is_brought and held.name is not null
  ),
  current as (
    insert into tenancy.directory_name as d (tenant_id, hash, person_id, source, is_active, is_current)
    select of_tenant, name.hash, name.id, 'people', name.active, true
    from name
    on conflict (tenant_id, hash, person_id) do update
    set is_active = excluded.is_active, is_current = true
    where (d.is_active, d.is_current) <> (excluded.is_active, true)
  )
  update tenancy.directory_name d
  set is_active = case when person.is_brought then person.active else d.is_active end, is_current = false
  from person
  where d.tenant_id = of_tenant and d.person_id = person.id and d.source = 'people'
    and not exists (select from name where name.id = person.id and name.hash = d.hash)
    and (d.is_current or person.is_brought and d.is_active <> person.active);
end
$function$;
grant execute on routine universe.publish_people(uuid,uuid[]) to postern_universe;

CREATE OR REPLACE FUNCTION universe.publish_people_of_connector()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  -- source_row_by_connector
  perform universe.publish_people(new.tenant_id, array(
    select p.id
    from universe.source_row s
    join universe.person p on p.tenant_id = s.tenant_id and p.external_id = s.source_key
    where s.tenant_id = new.tenant_id and s.connector_id = new.connector_id and s.scope = 'people'
  ));
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION universe.publish_people_of_rows()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  execute '
    select universe.publish_people(brought.tenant_id, brought.ids)
    from (
      select r.tenant_id, array_agg(p.id) as ids
      from changed_rows r
      join universe.source_connector c on c.tenant_id = r.tenant_id and c.connector_id = r.connector_id and c.is_authoritative
      join universe.person p on p.tenant_id = r.tenant_id and p.external_id = r.source_key
      where r.scope = ''people''
      group by r.tenant_id
    ) as brought';
  return null;
end
$function$;
