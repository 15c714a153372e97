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
  constraint entity_status_known CHECK ((status = ANY (ARRAY['draft'::text, 'active'::text, 'archived'::text]))),
  constraint entity_type_known CHECK ((type = ANY (ARRAY['legal_entity'::text, 'business_unit'::text, 'department'::text, 'process'::text, 'product'::text, 'it_system'::text, 'location'::text, 'vendor'::text, 'project'::text, 'regulation'::text, 'other'::text]))),
  constraint entity_version_positive CHECK ((version > 0)),
  constraint entity_parent_fk FOREIGN KEY (tenant_id, parent_id) REFERENCES universe.entity(tenant_id, id)
);
CREATE INDEX entity_by_parent ON universe.entity USING btree (tenant_id, parent_id);
CREATE INDEX entity_by_updated_at ON universe.entity USING btree (tenant_id, updated_at, id);
CREATE TRIGGER entity_guard BEFORE UPDATE ON universe.entity FOR EACH ROW EXECUTE FUNCTION universe.guard_entity();
CREATE TRIGGER entity_tree_after_insert AFTER INSERT ON universe.entity REFERENCING NEW TABLE AS new_entity FOR EACH STATEMENT EXECUTE FUNCTION universe.guard_entity_tree();
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

CREATE OR REPLACE FUNCTION universe.guard_entity_tree()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  moved boolean;
  too_deep boolean;
  unreached boolean;
begin
  if tg_op = 'INSERT' then
    select exists (select from new_entity made where made.parent_id is not null) into moved;
  else
    select exists (
      select
      from new_entity after
      join old_entity before on before.tenant_id = after.tenant_id and before.id = after.id
      where after.parent_id is not null and after.parent_id is distinct from before.parent_id
    ) into moved;
  end if;
  if not moved then
    return null;
  end if;

  perform from universe.reference_counter counter for update;

  with recursive reached (tenant_id, id, depth) as (
    select root.tenant_id, root.id, 1
    from universe.entity root
    where root.parent_id is null
    union all
    select child.tenant_id, child.id, reached.depth + 1
    from reached
    join universe.entity child on child.tenant_id = reached.tenant_id and child.parent_id = reached.id
    where reached.depth <= 12
  )
  select
    coalesce(max(reached.depth), 0) > 12,
    count(*) < (select count(*) from universe.entity)
  into too_deep, unreached
  from reached;

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
  return null;
end
$function$;
