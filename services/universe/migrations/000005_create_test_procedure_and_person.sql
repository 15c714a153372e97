-- Test procedures, which evidence is attached to, and the people whom sources name.

create table universe.test_procedure_counter (
  tenant_id uuid not null,
  last_number integer not null,
  constraint test_procedure_counter_pk primary key (tenant_id),
  constraint test_procedure_counter_not_negative check (last_number >= 0)
);
comment on table universe.test_procedure_counter is 'The last number given out in TP-<number>, one row a tenant.';

create table universe.test_procedure (
  tenant_id uuid not null,
  id uuid not null,
  number integer not null,
  reference text not null generated always as (
    'TP-' || lpad(number::text, greatest(4, char_length(number::text)), '0')
  ) stored,
  external_id text not null,
  title text not null,
  control_ref text,
  objective text,
  procedure_text text,
  method text,
  test_type text,
  entity_ids uuid[] not null default '{}',
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
  custom jsonb not null default '{}',
  created_by_type text not null,
  created_by_id text not null,
  created_by_label text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint test_procedure_pk primary key (tenant_id, id),
  constraint test_procedure_number_unique unique (tenant_id, number),
  constraint test_procedure_reference_unique unique (tenant_id, reference),
  constraint test_procedure_external_id_unique unique (tenant_id, external_id),
  constraint test_procedure_number_positive check (number > 0),
  constraint test_procedure_external_id_length check (char_length(external_id) between 1 and 255),
  constraint test_procedure_title_length check (char_length(title) between 1 and 255),
  constraint test_procedure_control_ref_length check (char_length(control_ref) between 1 and 255),
  constraint test_procedure_objective_length check (char_length(objective) <= 20000),
  constraint test_procedure_text_length check (char_length(procedure_text) <= 20000),
  constraint test_procedure_method_known check (method in ('examine', 'interview', 'test')),
  constraint test_procedure_test_type_known check (test_type in ('design', 'operating_effectiveness')),
  constraint test_procedure_entity_ids_few check (cardinality(entity_ids) <= 50),
  constraint test_procedure_engagement_ref_length check (char_length(engagement_ref) between 1 and 255),
  constraint test_procedure_period_start_range check (period_start_on between date '1900-01-01' and date '9999-12-31'),
  constraint test_procedure_period_end_range check (period_end_on between date '1900-01-01' and date '9999-12-31'),
  constraint test_procedure_period_in_order check (period_start_on <= period_end_on),
  constraint test_procedure_population_not_negative check (population_size >= 0),
  constraint test_procedure_sample_in_population check (sample_size >= 0 and sample_size <= population_size),
  constraint test_procedure_tester_is_object check (jsonb_typeof(tester) = 'object'),
  constraint test_procedure_reviewer_is_object check (jsonb_typeof(reviewer) = 'object'),
  constraint test_procedure_two_people check (
    tester <> reviewer
    and tester ->> 'person_id' is distinct from coalesce(reviewer ->> 'person_id', '')
    and lower(tester ->> 'email') is distinct from coalesce(lower(reviewer ->> 'email'), '')
  ),
  constraint test_procedure_due_on_range check (due_on between date '1900-01-01' and date '9999-12-31'),
  constraint test_procedure_status_known check (status in ('not_started', 'in_progress', 'in_review', 'completed')),
  constraint test_procedure_conclusion_known check (
    conclusion in ('effective', 'ineffective', 'no_population', 'not_concluded')
  ),
  constraint test_procedure_custom_is_object check (jsonb_typeof(custom) = 'object'),
  constraint test_procedure_created_by_type_known check (
    created_by_type in ('api_key', 'user', 'operator', 'connector')
  ),
  constraint test_procedure_version_positive check (version > 0)
);
comment on table universe.test_procedure is 'What an auditor tests, as its source describes it. Never deleted: evidence points at it.';
create index test_procedure_by_change on universe.test_procedure (tenant_id, updated_at, number);
create index test_procedure_by_due on universe.test_procedure (tenant_id, coalesce(due_on, date 'infinity'), number);
create index test_procedure_by_title on universe.test_procedure (tenant_id, title, number);

create table universe.test_procedure_entity (
  tenant_id uuid not null,
  test_procedure_id uuid not null,
  entity_id uuid not null,
  constraint test_procedure_entity_pk primary key (tenant_id, test_procedure_id, entity_id),
  constraint test_procedure_entity_procedure_fk foreign key (tenant_id, test_procedure_id)
    references universe.test_procedure (tenant_id, id),
  constraint test_procedure_entity_entity_fk foreign key (tenant_id, entity_id)
    references universe.entity (tenant_id, id)
);
comment on table universe.test_procedure_entity is
  'The links of universe.test_procedure.entity_ids as rows. Written by its triggers alone.';
create index test_procedure_entity_by_entity on universe.test_procedure_entity (tenant_id, entity_id);

-- INVARIANT: as for entities. The status goes forward, also over steps that no push has shown, or is reopened.
create function universe.guard_test_procedure() returns trigger
  language plpgsql
  set search_path = ''
as $$
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
$$;

create trigger test_procedure_guard before update on universe.test_procedure
  for each row execute function universe.guard_test_procedure();

create function universe.link_test_procedures() returns trigger
  language plpgsql
  set search_path = ''
as $$
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
$$;

create trigger test_procedure_links_after_insert after insert on universe.test_procedure
  referencing new table as new_procedure
  for each statement execute function universe.link_test_procedures();
create trigger test_procedure_links_after_update after update on universe.test_procedure
  referencing new table as new_procedure
  for each statement execute function universe.link_test_procedures();

create table universe.person (
  tenant_id uuid not null,
  id uuid not null,
  external_id text not null,
  name text not null,
  email text,
  title text,
  active boolean not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  version integer not null default 1,
  constraint person_pk primary key (tenant_id, id),
  constraint person_external_id_unique unique (tenant_id, external_id),
  -- Asked at the end of a statement: one push may hand an address from one person to another.
  constraint person_email_unique unique (tenant_id, email) deferrable initially immediate,
  constraint person_external_id_length check (char_length(external_id) between 1 and 255),
  constraint person_name_length check (char_length(name) between 1 and 255),
  constraint person_email_form check (email = lower(email) and char_length(email) between 3 and 254),
  constraint person_title_length check (char_length(title) between 1 and 255),
  constraint person_version_positive check (version > 0)
);
comment on table universe.person is 'Someone whom a source knows. Never deleted: who has left is not active.';
create index person_by_name on universe.person (tenant_id, name, id);
create index person_by_change on universe.person (tenant_id, updated_at, id);

create function universe.guard_person() returns trigger
  language plpgsql
  set search_path = ''
as $$
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
$$;

create trigger person_guard before update on universe.person
  for each row execute function universe.guard_person();

call tenancy.protect_table('universe.test_procedure_counter', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.protect_table('universe.test_procedure', 'postern_universe', array['select', 'insert', 'update']);
call tenancy.protect_table('universe.test_procedure_entity', 'postern_universe', array['select', 'insert', 'delete']);
call tenancy.protect_table('universe.person', 'postern_universe', array['select', 'insert', 'update']);
