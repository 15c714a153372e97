-- More rules of a tenant's key policy, and what administrators should look at: the health of each active key, kept by reason,
-- so that lists and counts come from an index.
-- suits the running release: new rules are off until an administrator of the new release sets them
-- holds up writes: the tables hold one row for each tenant or key, some thousands
-- holds up readers: the tables hold one row for each tenant or key, some thousands

alter table keys.tenant
  add column forbid_wildcards boolean not null default false,
  add column require_owner boolean not null default false,
  add column most_keys integer,
  add column rotation_days integer not null default 90,
  add constraint tenant_most_keys_positive check (most_keys >= 1),
  add constraint tenant_rotation_days_range check (rotation_days between 1 and 1825);
comment on column keys.tenant.most_keys is 'How many active keys the tenant may have; null for any number. Rotations do not count.';
comment on column keys.tenant.rotation_days is 'The age at which a key is due for rotation.';
comment on column keys.tenant.policy_version is 'Grows with every change of the key policy.';
grant update (forbid_wildcards, require_owner, most_keys, rotation_days) on keys.tenant to postern_keys;

alter table keys.key_policy_event
  add column forbid_wildcards boolean not null default false,
  add column require_owner boolean not null default false,
  add column most_keys integer,
  add column rotation_days integer not null default 90;

create or replace function keys.guard_tenant() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if (new.tenant_id, new.slug, new.created_at) is distinct from (old.tenant_id, old.slug, old.created_at) then
    raise exception using errcode = '23514', constraint = 'tenant_origin_is_fixed', message = 'what a tenant was made as never changes';
  end if;
  new.version := old.version + case
    when (new.status, new.name, new.key_limit, new.tenant_limit)
      is distinct from (old.status, old.name, old.key_limit, old.tenant_limit) then 1 else 0 end;
  new.policy_version := old.policy_version + case
    when (new.max_key_days, new.required_addresses, new.forbid_wildcards, new.require_owner, new.most_keys, new.rotation_days)
      is distinct from
         (old.max_key_days, old.required_addresses, old.forbid_wildcards, old.require_owner, old.most_keys, old.rotation_days)
    then 1 else 0 end;
  return new;
end
$$;

create function keys.has_wildcard(scopes text[]) returns boolean
language sql
immutable
set search_path = ''
as $$
  select scopes operator(pg_catalog.&&) array['*', 'read:*', 'write:*', 'admin:*']
$$;
grant execute on function keys.has_wildcard(text[]) to postern_keys, postern_keys_definer;

create or replace function keys.guard_key_policy() returns trigger
language plpgsql
set search_path = ''
as $$
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
$$;

create table keys.api_key_health (
  tenant_id uuid not null,
  key_id uuid not null,
  reason text not null,
  constraint api_key_health_pk primary key (tenant_id, key_id, reason),
  constraint api_key_health_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id),
  constraint api_key_health_reason_known check (reason in (
    'never_used', 'idle', 'expiring', 'rotation_due', 'rotated_in_use', 'wildcard', 'no_address_limit', 'owner_left',
    'outside_policy'))
);
comment on table keys.api_key_health is 'Why an active key needs a look. Triggers and housekeeping keep it.';
create index api_key_health_by_reason on keys.api_key_health (tenant_id, reason, key_id);

create table keys.api_key_review (
  tenant_id uuid not null,
  key_id uuid not null,
  review_at timestamptz not null,
  constraint api_key_review_pk primary key (tenant_id, key_id),
  constraint api_key_review_key_fk foreign key (tenant_id, key_id) references keys.api_key (tenant_id, id)
);
comment on table keys.api_key_review is 'When the health of a key changes next, without a change of the key.';
create index api_key_review_due on keys.api_key_review (review_at);

create table keys.policy_review (
  tenant_id uuid not null,
  after_key uuid not null default '00000000-0000-0000-0000-000000000000',
  constraint policy_review_pk primary key (tenant_id),
  constraint policy_review_tenant_fk foreign key (tenant_id) references keys.tenant (tenant_id)
);
comment on table keys.policy_review is 'Tenants whose key policy changed. Housekeeping assesses their keys in the order of their ids.';
comment on column keys.policy_review.after_key is 'Keys up to this id were assessed.';

-- The owner of a table is otherwise subject to its policies and would find no row.
alter table keys.tenant no force row level security;
insert into keys.policy_review (tenant_id) select t.tenant_id from keys.tenant as t;
alter table keys.tenant force row level security;

call tenancy.protect_table('keys.api_key_health', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.api_key_health', 'postern_keys_definer', array['select', 'insert', 'delete']);
call tenancy.protect_table('keys.api_key_review', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.api_key_review', 'postern_keys_definer', array['select', 'insert', 'update']);
call tenancy.protect_table('keys.policy_review', 'postern_keys', array['select']);
call tenancy.admit_definer('keys.policy_review', 'postern_keys_definer', array['select', 'insert', 'update', 'delete']);

-- Writes the health of keys of one tenant, and when it changes next. The lock on a key's review orders two assessments.
-- Every transaction locks keys before reviews, and both in the order of their ids, so that none waits for the other.
create function keys.assess_keys(of_tenant uuid, ids uuid[]) returns void
language plpgsql
security definer
set search_path = ''
as $$
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

  with facts as (
    select k.id, k.created_at, k.expires_at, k.last_used_at, k.scopes, k.allowed_addresses, k.made_for, k.owner_type,
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
       and k.id = any (ids)
       and k.revoked_at is null
       and k.expires_at > moment),
  found as (
    select f.id, r.reason
      from facts as f
     cross join lateral (values
             ('never_used', f.last_used_at is null and f.created_at <= moment - interval '1 day'),
             ('idle', f.last_used_at <= moment - interval '90 days'),
             ('expiring', f.expires_at <= moment + interval '30 days' and f.successor_at is null),
             ('rotation_due', f.created_at <= moment - f.rotation_age and f.successor_at is null),
             ('rotated_in_use', f.last_used_at > f.successor_at),
             ('wildcard', keys.has_wildcard(f.scopes)),
             ('no_address_limit', pg_catalog.cardinality(f.allowed_addresses) = 0),
             ('owner_left', f.has_left),
             ('outside_policy',
              f.made_for > f.longest
                or f.forbid_wildcards and keys.has_wildcard(f.scopes)
                or f.require_owner and f.owner_type is null
                or not keys.narrows_addresses(f.allowed_addresses, f.required_addresses))) as r (reason, holds)
     where r.holds),
  gone as (
    delete from keys.api_key_health as h
     where h.tenant_id = of_tenant
       and h.key_id = any (ids)
       and not exists (select from found where found.id = h.key_id and found.reason = h.reason)),
  kept as (
    insert into keys.api_key_health (tenant_id, key_id, reason)
    select of_tenant, found.id, found.reason
      from found
        on conflict do nothing)
  update keys.api_key_review as r
     set review_at = coalesce((
           select pg_catalog.min(n.at)
             from facts as f
            cross join lateral (values
                    (f.expires_at), (f.expires_at - interval '30 days'), (f.created_at + interval '1 day'),
                    (f.created_at + f.rotation_age), (f.last_used_at + interval '90 days'),
                    (case when f.successor_at is not null then moment + interval '1 minute' end)) as n (at)
            where f.id = r.key_id
              and n.at > moment), 'infinity')
   where r.tenant_id = of_tenant
     and r.key_id = any (ids);
end
$$;
call tenancy.give_function('keys.assess_keys(uuid, uuid[])', 'postern_keys_definer', array[]::name[]);

-- For all rows of a statement at once: row by row, two statements would lock reviews in different orders.
create function keys.assess_changed_keys() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
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
$$;

create trigger api_key_made_is_assessed after insert on keys.api_key
  referencing new table as after
  for each statement execute function keys.assess_changed_keys();
create trigger api_key_change_is_assessed after update on keys.api_key
  referencing old table as before new table as after
  for each statement execute function keys.assess_changed_keys();

create function keys.assess_keys_of_member() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
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
$$;

create trigger member_left_is_assessed after update on keys.member
  for each row when (old.left_at is distinct from new.left_at) execute function keys.assess_keys_of_member();

create function keys.review_after_policy() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
begin
  insert into keys.policy_review as r (tenant_id)
  values (new.tenant_id)
      on conflict (tenant_id) do update set after_key = excluded.after_key;
  return null;
end
$$;

create trigger tenant_policy_is_reviewed after update on keys.tenant
  for each row when (old.policy_version <> new.policy_version) execute function keys.review_after_policy();

-- Assesses keys whose review is due, and some of a tenant whose policy changed. Tells whether there were any.
create function keys.review_keys(at_most integer) returns boolean
language plpgsql
security definer
set search_path = ''
as $$
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
$$;
call tenancy.give_function('keys.review_keys(integer)', 'postern_keys_definer', array['postern_keys']);

-- Once the triggers are there: to create one, its function must be the owner's.
call tenancy.give_function('keys.assess_changed_keys()', 'postern_keys_definer', array[]::name[]);
call tenancy.give_function('keys.assess_keys_of_member()', 'postern_keys_definer', array[]::name[]);
call tenancy.give_function('keys.review_after_policy()', 'postern_keys_definer', array[]::name[]);
