-- Who the tenant is, decided by PostgreSQL and not by the service that asks. README.md beside this folder explains it.

-- Functions are closed until a migration opens them to a role.
alter default privileges revoke execute on functions from public;

create schema tenancy;
grant usage on schema tenancy to
  postern_tenancy, postern_keys_definer,
  postern_keys, postern_findings, postern_universe, postern_evidence, postern_sync;

-- Where migrations put extensions (create extension … with schema extensions). It is the only schema on the search_path
-- of the runtime roles, who may use it and create nothing in it.
create schema extensions;
grant usage on schema extensions to
  postern_keys, postern_findings, postern_universe, postern_evidence, postern_sync, postern_keys_definer;

-- RFC 2104, section 2: the key, filled up with zeros to one block of SHA-256, each byte combined with a constant.
create function tenancy.hmac_pad(secret pg_catalog.bytea, pad pg_catalog.int4) returns pg_catalog.bytea
language plpgsql
immutable
strict
parallel safe
set search_path = ''
as $$
declare
  block pg_catalog.bytea := secret || pg_catalog.decode(pg_catalog.repeat('00', 64 - pg_catalog.octet_length(secret)), 'hex');
begin
  for position in 0..63 loop
    block := pg_catalog.set_byte(block, position, pg_catalog.get_byte(block, position) # pad);
  end loop;
  return block;
end
$$;

-- The secrets that tenant assertions are made with. Several at a time, so that one can be replaced while both are valid.
create table tenancy.assertion_secret (
  key_id text not null,
  secret bytea not null,
  -- The two halves of HMAC that do not depend on the message: computed here once, not once a statement.
  inner_pad bytea not null generated always as (tenancy.hmac_pad(secret, 54)) stored,
  outer_pad bytea not null generated always as (tenancy.hmac_pad(secret, 92)) stored,
  created_at timestamptz not null default now(),
  -- From then on it is refused; null: until it is deleted.
  not_after timestamptz,
  constraint assertion_secret_pk primary key (key_id),
  constraint assertion_secret_key_id_format check (key_id ~ '^[A-Za-z0-9_-]{1,32}$'),
  constraint assertion_secret_length check (octet_length(secret) between 32 and 64)
);

-- Not the secret itself: what verifies does not need it.
grant select (key_id, inner_pad, outer_pad, not_after) on tenancy.assertion_secret to postern_tenancy;
grant select (created_at) on tenancy.assertion_secret to postern_tenancy;

-- Whether an assertion, v1.<key id>.<tenant>.<expiry in Unix seconds>.<mac>, was made with the key of these pads and is
-- valid now; null or false when not, also for null and for text of any other form. It says nothing about why.
-- HOT PATH: one expression, which the planner writes into its caller. No regular expression: one costs as much as all
-- the rest, and what has our mac has our form. A mac is right in one spelling only, its last character included, because
-- the text is compared as a whole; and as hashes under the secret, so that the time it takes tells nothing about the
-- right one.
create function tenancy.is_valid(assertion text, inner_pad bytea, outer_pad bytea) returns boolean
language sql
stable
parallel safe
return case
  when octet_length(assertion) <= 128
       and starts_with(assertion, 'v1.')
       and sha256(inner_pad || convert_to(assertion, 'UTF8'))
           = sha256(inner_pad || convert_to(left(assertion, -44) || '.' || translate(encode(
               sha256(outer_pad || sha256(inner_pad || convert_to(left(assertion, -44), 'UTF8'))),
             'base64'), '+/=', '-_'), 'UTF8'))
  -- The time at which this statement came, not the transaction's start: a transaction does not outlive its assertion.
  then split_part(assertion, '.', 4)::bigint - extract(epoch from statement_timestamp()) > 0
       and split_part(assertion, '.', 4)::bigint - extract(epoch from statement_timestamp()) <= 300
end;
grant execute on function tenancy.is_valid(text, bytea, bytea) to postern_tenancy;

-- The tenant of this transaction, for the policies. Raises 28000 when there is none that can be believed. Write
-- (select tenancy.tenant_id()) around it, so that a statement evaluates it once and not once a row.
create function tenancy.tenant_id() returns uuid
language plpgsql
stable
parallel safe
security definer
set search_path = ''
as $$
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
$$;

-- True when the assertion of this transaction is the operator's; raises 28000 otherwise, also for every tenant.
create function tenancy.assert_operator() returns boolean
language plpgsql
stable
parallel safe
security definer
set search_path = ''
as $$
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
$$;

-- Every table gets its policies and grants from these procedures, so that they are the same everywhere. They run with the
-- rights of the caller, and only the owner may call them.

-- Hands a SECURITY DEFINER function to the role that it shall run as, opened to the named callers. The definer may
-- create in the schema for the length of this call only. To change the function later: drop, create, give it again.
create procedure tenancy.give_function(routine pg_catalog.regprocedure, definer pg_catalog.name, callers pg_catalog.name[])
language plpgsql
set search_path = ''
as $$
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
$$;

-- Definers are roles that nobody can log in as.
create function tenancy.assert_definer(definer pg_catalog.name) returns void
language plpgsql
stable
set search_path = ''
as $$
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
$$;

-- Puts a table under its tenant: row security enabled and forced, one restrictive policy that no later policy can widen,
-- and for the role one permissive policy and one grant for each of the commands (select, insert, update, delete).
-- Called once for each role that may use the table; again for the same role it replaces what the role may do.
create procedure tenancy.protect_table(protected pg_catalog.regclass, runtime pg_catalog.name, commands pg_catalog.text[])
language plpgsql
set search_path = ''
as $$
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
$$;

-- Lets the functions of a definer see and change the rows of all tenants in one table. The definer is then the only
-- role that the restrictive policy leaves out. A table without tenant_id is then open to the definer alone.
create procedure tenancy.admit_definer(protected pg_catalog.regclass, definer pg_catalog.name, commands pg_catalog.text[])
language plpgsql
set search_path = ''
as $$
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
$$;

create procedure tenancy.set_access(
  protected pg_catalog.regclass, grantee pg_catalog.name, commands pg_catalog.text[], condition pg_catalog.text)
language plpgsql
set search_path = ''
as $$
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
$$;

-- The restrictive policy holds for everyone. On a table that a definer is admitted to, it names everyone else: the owner
-- and every role with a policy of its own; a role without one sees nothing anyway.
create procedure tenancy.restrict_to_tenant(protected pg_catalog.regclass)
language plpgsql
set search_path = ''
as $$
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
$$;

-- For tables that only grow: create trigger … before update or delete … for each row execute function
-- tenancy.refuse_change(); and the same before truncate, for each statement.
create function tenancy.refuse_change() returns trigger
language plpgsql
set search_path = ''
as $$
begin
  raise exception using
    errcode = '55000',
    message = pg_catalog.format('rows of %s.%s are never changed or deleted', tg_table_schema, tg_table_name),
    schema = tg_table_schema,
    table = tg_table_name;
end
$$;

call tenancy.give_function('tenancy.tenant_id()', 'postern_tenancy', array[
  'postern_keys_definer',
  'postern_keys', 'postern_findings', 'postern_universe', 'postern_evidence', 'postern_sync']);
call tenancy.give_function('tenancy.assert_operator()', 'postern_tenancy', array[
  'postern_keys_definer', 'postern_keys']);

-- Idempotency: what a service needs to repeat its answer to a repeated request.

-- Makes <schema>.idempotency_record for a service and opens it to the service's role. src/idempotency.ts works with it.
create procedure tenancy.create_idempotency_table(schema_name pg_catalog.name, runtime pg_catalog.name)
language plpgsql
set search_path = ''
as $$
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
$$;

-- The change feed: what has changed in a tenant, in the order of the commits.

-- One row a tenant: the last position that was given out, and the last one that is no longer kept.
create table tenancy.change_head (
  tenant_id uuid not null,
  last_position bigint not null,
  pruned_position bigint not null default 0,
  constraint change_head_pk primary key (tenant_id),
  constraint change_head_in_order check (pruned_position between 0 and last_position)
);

call tenancy.admit_definer('tenancy.change_head', 'postern_tenancy', array['select', 'insert', 'update']);
-- The findings service serves the feed; it learns kinds, ids and versions, and nothing of what is in a resource.
call tenancy.protect_table('tenancy.change_head', 'postern_findings', array['select']);

-- One row a transaction that has changed something.
create table tenancy.change_batch (
  tenant_id uuid not null,
  id uuid not null default uuidv7(),
  -- The transaction while it runs. It is a number of the whole cluster, hence nothing of it is left for others to read.
  made_by xid8,
  -- Given at the commit. Numbers of a tenant's own, so that they tell nothing about the others.
  position bigint,
  committed_at timestamptz(3),
  -- Where the write-ahead log was when the transaction ended: the order in which transactions get their positions. A
  -- transaction that waited for another one ends behind it. Null while the transaction runs, and once it has a position.
  ended_at pg_lsn,
  constraint change_batch_pk primary key (tenant_id, id),
  constraint change_batch_position_unique unique (tenant_id, position),
  constraint change_batch_ends check (
    (made_by is null) = (committed_at is not null) and (position is not null or ended_at is not null) = (made_by is null)
  )
);
create unique index change_batch_open on tenancy.change_batch (tenant_id, made_by) where made_by is not null;
create index change_batch_unplaced on tenancy.change_batch (tenant_id, ended_at) where ended_at is not null;

-- Ends the batch of a transaction, at its commit. Waits for nobody.
create function tenancy.end_changes() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
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
$$;

create constraint trigger end_changes after insert on tenancy.change_batch
  deferrable initially deferred
  for each row execute function tenancy.end_changes();
call tenancy.give_function('tenancy.end_changes()', 'postern_tenancy', array[]::name[]);

call tenancy.admit_definer('tenancy.change_batch', 'postern_tenancy', array['select', 'insert', 'update', 'delete']);
call tenancy.protect_table('tenancy.change_batch', 'postern_findings', array['select']);

create table tenancy.change (
  tenant_id uuid not null,
  batch_id uuid not null,
  ordinal integer not null,
  kind text not null,
  resource_id uuid not null,
  change text not null,
  version integer,
  constraint change_pk primary key (tenant_id, batch_id, ordinal),
  constraint change_known check (change in ('created', 'updated', 'deleted'))
);

call tenancy.admit_definer('tenancy.change', 'postern_tenancy', array['select', 'insert', 'delete']);
call tenancy.protect_table('tenancy.change', 'postern_findings', array['select']);

-- Notes the rows that a statement has changed, in the batch of its transaction. The rows have passed the policies of
-- their own table by then, so their tenant is the one to note them for.
-- Arguments: the kind, the column of the id, and an expression for the version.
create function tenancy.note_changes() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
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
$$;
call tenancy.give_function('tenancy.note_changes()', 'postern_tenancy', array[]::name[]);
-- The owner creates triggers with it. Only the owner of the function can grant that.
set local role postern_tenancy;
grant execute on function tenancy.note_changes() to postern_owner;
set local role postern_owner;

-- Puts a tenant table into the change feed: whoever inserts, updates or deletes its rows, it is noted. `kind` is what the
-- feed calls a row of it; `id_column` holds the id under which the API shows it. A column `version` is noted with it.
create procedure tenancy.track_changes(
  tracked pg_catalog.regclass, kind pg_catalog.text, id_column pg_catalog.name default 'id')
language plpgsql
set search_path = ''
as $$
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
$$;

-- Gives up to `most` committed transactions of a tenant their positions, in the order in which they ended, and removes
-- what is older than 30 days. Returns whether more may be left. The caller holds the lock of the tenant's feed.
create function tenancy.place_changes(tenant pg_catalog.uuid, most pg_catalog.int4) returns pg_catalog.bool
language plpgsql
set search_path = ''
as $$
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
$$;
grant execute on function tenancy.place_changes(uuid, integer) to postern_tenancy;

-- Places what is committed of the tenant of the assertion. Returns whether more may be left.
-- INVARIANT: a reader that has seen a position never finds a new change at or below it. Only one transaction at a time
-- places changes of a tenant; it places what is committed already, and each statement of it sees what the one before it
-- has committed.
create function tenancy.sequence_changes() returns pg_catalog.bool
language plpgsql
security definer
set search_path = ''
as $$
declare
  tenant constant pg_catalog.uuid := tenancy.tenant_id();
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('tenancy.change ' || tenant::pg_catalog.text, 0));
  perform from tenancy.change_batch as b where b.tenant_id = tenant and b.made_by is null and b.ended_at is not null limit 1;
  return found and tenancy.place_changes(tenant, 1000);
end
$$;
call tenancy.give_function('tenancy.sequence_changes()', 'postern_tenancy', array['postern_findings']::name[]);

-- How many rows of one service point at a resource of another. They are counted here, because neither service reads the
-- schema of the other.

create table tenancy.link_count (
  tenant_id uuid not null,
  -- What points at the resource.
  kind text not null,
  resource_id uuid not null,
  links integer not null,
  constraint link_count_pk primary key (tenant_id, kind, resource_id),
  constraint link_count_positive check (links > 0)
);

call tenancy.admit_definer('tenancy.link_count', 'postern_tenancy', array['select', 'insert', 'update']);
-- The universe shows how much evidence a test procedure has; it learns that number and nothing of the evidence.
call tenancy.protect_table('tenancy.link_count', 'postern_universe', array['select']);

-- Counts the rows that a statement has inserted. They have passed the policies of their own table by then, so their
-- tenant is the one to count them for. Rows that name no id point at nothing.
-- Arguments: the kind, and the column that holds the id as text.
create function tenancy.count_new_links() returns trigger
language plpgsql
security definer
set search_path = ''
as $$
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
$$;
call tenancy.give_function('tenancy.count_new_links()', 'postern_tenancy', array[]::name[]);
-- The owner creates triggers with it. Only the owner of the function can grant that.
set local role postern_tenancy;
grant execute on function tenancy.count_new_links() to postern_owner;
set local role postern_owner;

-- Counts the rows of an append-only tenant table by the id that `id_column` holds as text.
create procedure tenancy.count_links(counted pg_catalog.regclass, kind pg_catalog.text, id_column pg_catalog.name)
language plpgsql
set search_path = ''
as $$
begin
  execute pg_catalog.format('create trigger count_new_links after insert on %s referencing new table as new_rows '
    'for each statement execute function tenancy.count_new_links(%L, %L)', counted, kind, id_column);
end
$$;

-- Work that continues after the request that asked for it: a worker gets an assertion of the tenant without ever holding
-- a secret or a key.

-- What a tenant has asked to be done in its name. Only a transaction of the tenant itself can put a row here, so that
-- no service can act for a tenant that has not asked for it.
create table tenancy.granted_work (
  tenant_id uuid not null,
  work_id uuid not null,
  -- The worker that carries it out now: a number of its own, new for every attempt.
  holder uuid,
  granted_at timestamptz not null default now(),
  constraint granted_work_pk primary key (tenant_id, work_id),
  -- Random, hence nobody can ask about one that he does not know.
  constraint granted_work_id_unique unique (work_id)
);

call tenancy.protect_table('tenancy.granted_work', 'postern_sync', array['select', 'insert', 'delete']);
call tenancy.admit_definer('tenancy.granted_work', 'postern_tenancy', array['select', 'update']);

-- Makes a worker the holder. Whoever held the work before holds it no longer: the queue gives work out again only when
-- it takes the worker before for dead. False where there is no such work.
create function tenancy.hold_work(work uuid, worker uuid) returns boolean
language plpgsql
volatile
security definer
set search_path = ''
as $$
begin
  update tenancy.granted_work as g
     set holder = worker
   where g.work_id = work;
  return found;
end
$$;
call tenancy.give_function('tenancy.hold_work(uuid, uuid)', 'postern_tenancy', array['postern_sync']);

-- An assertion of the tenant that has asked for the work, valid for a minute, for the worker that holds it. Raises 28000
-- for everybody else.
create function tenancy.issue_for_run(work uuid, worker uuid) returns text
language plpgsql
volatile
security definer
set search_path = ''
as $$
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
$$;
call tenancy.give_function('tenancy.issue_for_run(uuid, uuid)', 'postern_tenancy', array['postern_sync']);

create table tenancy.suspended_tenant (
  tenant_id uuid not null,
  since timestamptz not null default now(),
  constraint suspended_tenant_pk primary key (tenant_id)
);

call tenancy.admit_definer('tenancy.suspended_tenant', 'postern_tenancy', array['select', 'insert', 'delete']);

-- Notes that a tenant is suspended, or is no more, in the operator's transaction that makes it so.
create function tenancy.note_suspension(tenant uuid, suspended boolean) returns void
language plpgsql
volatile
security definer
set search_path = ''
as $$
begin
  perform tenancy.assert_operator();
  if suspended then
    insert into tenancy.suspended_tenant (tenant_id) values (tenant) on conflict do nothing;
  else
    delete from tenancy.suspended_tenant as s where s.tenant_id = tenant;
  end if;
end
$$;
call tenancy.give_function('tenancy.note_suspension(uuid, boolean)', 'postern_tenancy', array['postern_keys']);

-- Whether the tenant that has asked for the work is suspended. Tells only who holds the work.
create function tenancy.is_work_suspended(work uuid, worker uuid) returns boolean
language sql
stable
security definer
set search_path = ''
as $$
  select exists (
    select
      from tenancy.granted_work as g
      join tenancy.suspended_tenant as s on s.tenant_id = g.tenant_id
     where g.work_id = work and g.holder = worker)
$$;
call tenancy.give_function('tenancy.is_work_suspended(uuid, uuid)', 'postern_tenancy', array['postern_sync']);
