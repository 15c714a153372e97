-- Auditable entities, the tree they form, and the counter behind their references.

create schema universe;

create table universe.reference_counter (
  tenant_id uuid not null,
  last_number integer not null,
  constraint reference_counter_pk primary key (tenant_id),
  constraint reference_counter_not_negative check (last_number >= 0)
);
comment on table universe.reference_counter is
  'The last number given out in AE-<number>, one row a tenant. Its lock is the tenant''s lock for changes of the tree.';

create table universe.entity (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  number integer not null,
  reference text not null generated always as (
    'AE-' || lpad(number::text, greatest(4, char_length(number::text)), '0')
  ) stored,
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
  custom jsonb not null default '{}',
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint entity_pk primary key (tenant_id, id),
  constraint entity_number_unique unique (tenant_id, number),
  constraint entity_reference_unique unique (tenant_id, reference),
  constraint entity_external_id_unique unique (tenant_id, external_id),
  constraint entity_parent_fk foreign key (tenant_id, parent_id) references universe.entity (tenant_id, id),
  constraint entity_number_positive check (number > 0),
  constraint entity_external_id_length check (char_length(external_id) between 1 and 255),
  constraint entity_name_length check (char_length(name) between 1 and 255),
  constraint entity_description_length check (char_length(description) <= 20000),
  constraint entity_type_known check (
    type in (
      'legal_entity', 'business_unit', 'department', 'process', 'product', 'it_system', 'location', 'vendor',
      'project', 'regulation', 'other'
    )
  ),
  constraint entity_status_known check (status in ('draft', 'active', 'archived')),
  constraint entity_parent_is_another check (parent_id <> id),
  constraint entity_owner_is_object check (jsonb_typeof(owner) = 'object'),
  constraint entity_audit_lead_is_object check (jsonb_typeof(audit_lead) = 'object'),
  constraint entity_executive_is_object check (jsonb_typeof(executive) = 'object'),
  constraint entity_inherent_rating_known check (inherent_rating in ('critical', 'high', 'medium', 'low')),
  constraint entity_inherent_score_range check (inherent_score between 0 and 100),
  constraint entity_inherent_risk_whole check ((inherent_rating is null) = (inherent_score is null)),
  constraint entity_residual_rating_known check (residual_rating in ('critical', 'high', 'medium', 'low')),
  constraint entity_residual_score_range check (residual_score between 0 and 100),
  constraint entity_residual_risk_whole check ((residual_rating is null) = (residual_score is null)),
  constraint entity_risk_assessed_on_range check (
    risk_assessed_on between date '1900-01-01' and date '9999-12-31'
  ),
  constraint entity_audit_frequency_range check (audit_frequency_months between 1 and 120),
  constraint entity_last_audit_on_range check (last_audit_on between date '1900-01-01' and date '9999-12-31'),
  constraint entity_last_audit_opinion_known check (
    last_audit_opinion in ('satisfactory', 'needs_improvement', 'unsatisfactory')
  ),
  constraint entity_regulatory_next_due_on_range check (
    regulatory_next_due_on between date '1900-01-01' and date '9999-12-31'
  ),
  constraint entity_custom_is_object check (jsonb_typeof(custom) = 'object'),
  constraint entity_created_by_type_known check (created_by_type in ('api_key', 'user', 'operator', 'connector')),
  constraint entity_version_positive check (version > 0)
);
comment on table universe.entity is 'What can be audited, as its source describes it. Never deleted: findings point at it.';
comment on column universe.entity.external_id is 'The source''s own key: by it a push finds the row that it speaks of.';
comment on column universe.entity.created_at is 'Milliseconds, as clients see it.';

-- The list goes by number, which entity_number_unique serves. This one serves pulls of what has changed.
create index entity_by_updated_at on universe.entity (tenant_id, updated_at, id);
-- Serves the foreign key, the walk down the tree, and the question for the children of an entity.
create index entity_by_parent on universe.entity (tenant_id, parent_id);

-- INVARIANT: what an entity is never changes, its version counts its changes, and its status moves along the state
-- machine alone, whoever writes.
create function universe.guard_entity() returns trigger
  language plpgsql
  set search_path = ''
as $$
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
$$;

create trigger entity_guard before update on universe.entity
  for each row execute function universe.guard_entity();

-- INVARIANT: the entities of a tenant form trees, at most 12 deep: each is reached from a root in at most 12 steps.
-- The counter's row is locked first, so that two changes that are sound alone cannot close a circle together; the walk
-- is a later statement and sees what the holder of the lock before has committed.
create function universe.guard_entity_tree() returns trigger
  language plpgsql
  set search_path = ''
as $$
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
$$;

create trigger entity_tree_after_insert after insert on universe.entity
  referencing new table as new_entity
  for each statement execute function universe.guard_entity_tree();

create trigger entity_tree_after_update after update on universe.entity
  referencing old table as old_entity new table as new_entity
  for each statement execute function universe.guard_entity_tree();

call tenancy.protect_table('universe.reference_counter', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.protect_table('universe.entity', 'postern_universe', array['select', 'insert', 'update']);
