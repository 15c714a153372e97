import type { Violation } from '../src/catalog-check.ts'

const condition = 'tenant_id = (select tenancy.tenant_id())'
const columns = 'tenant_id uuid not null, id uuid not null, name text not null'
const definer = (owner: string, options: string): string =>
  `create function clean.f() returns integer language sql security definer ${options} return 1;
   revoke execute on function clean.f() from public;
   alter function clean.f() owner to ${owner}`

/** Statements with one fault each, and the violation that the check reports. They extend the schema `clean` of the database `name`. */
export const faultsIn = (name: string): readonly (readonly [Violation['rule'], string, string, string])[] => [
  ['C1', 'create table clean.bare (id uuid)', 'clean.bare', 'has no column tenant_id uuid not null'],
  ['C1', 'create table clean.bare (tenant_id uuid)', 'clean.bare', 'has no column tenant_id uuid not null'],
  ['C1', 'create table clean.bare (tenant_id text not null)', 'clean.bare', 'has no column tenant_id uuid not null'],
  ['C1', `create table clean.bare (${columns})`, 'clean.bare', 'row level security is not enabled'],
  ['C1', 'alter table clean.parent disable row level security', 'clean.parent', 'row level security is not enabled'],
  [
    'C1',
    'alter table clean.parent no force row level security',
    'clean.parent',
    'row level security is not forced on its owner',
  ],
  [
    'C1',
    `create table clean.parted (${columns}) partition by hash (tenant_id);
     create table clean.part partition of clean.parted for values with (modulus 1, remainder 0);
     call tenancy.protect_table('clean.parted', 'postern_findings', array['select'])`,
    'clean.part',
    'row level security is not enabled',
  ],

  [
    'C2',
    'grant delete on clean.child to postern_findings',
    'clean.child',
    'delete is granted to postern_findings without a policy for it',
  ],
  [
    'C2',
    'grant update (parent_id) on clean.child to postern_findings',
    'clean.child',
    'update is granted to postern_findings without a policy for it',
  ],
  [
    'C2',
    'grant select on clean.child to postern_sync',
    'clean.child',
    'select is granted to postern_sync without a policy for it',
  ],
  [
    'C2',
    'drop policy postern_findings_insert on clean.parent',
    'clean.parent',
    'insert is granted to postern_findings without a policy for it',
  ],
  [
    'C2',
    `drop policy postern_findings_update on clean.parent;
     create policy half on clean.parent for update to postern_findings using (${condition})`,
    'clean.parent',
    'update is granted to postern_findings without a policy for it',
  ],

  [
    'C3',
    'create policy more on clean.parent for select to postern_findings using (true)',
    'clean.parent',
    'policy more lets postern_findings see every tenant',
  ],
  [
    'C3',
    'create policy more on clean.parent for insert to postern_findings with check (true)',
    'clean.parent',
    'policy more lets postern_findings see every tenant',
  ],
  [
    'C3',
    `create policy more on clean.parent for select to postern_findings using (${condition} or name = 'x')`,
    'clean.parent',
    'policy more does not have the one condition',
  ],
  [
    'C3',
    'create policy more on clean.parent for select to postern_findings using (tenant_id = tenancy.tenant_id())',
    'clean.parent',
    'policy more does not have the one condition',
  ],
  [
    'C3',
    `create policy more on clean.parent to postern_findings using (${condition}) with check (id = tenant_id)`,
    'clean.parent',
    'policy more does not have the one condition',
  ],
  [
    'C3',
    `create policy more on clean.parent for select using (${condition})`,
    'clean.parent',
    'policy more is permissive to public',
  ],
  [
    'C3',
    "call tenancy.admit_definer('clean.parent', 'postern_keys_definer', array['select'])",
    'clean.parent',
    'policy postern_keys_definer_select lets postern_keys_definer see every tenant',
  ],
  [
    'C3',
    'drop policy tenant_only on clean.parent',
    'clean.parent',
    'no restrictive policy of the tenant for all commands',
  ],
  [
    'C3',
    `drop policy tenant_only on clean.parent;
     create policy tenant_only on clean.parent as restrictive for select using (${condition})`,
    'clean.parent',
    'no restrictive policy of the tenant for all commands',
  ],
  [
    'C3',
    'alter policy tenant_only on clean.parent to postern_owner',
    'clean.parent',
    'the restrictive policy does not hold for postern_findings',
  ],
  [
    'C3',
    'alter policy tenant_only on clean.parent to postern_findings',
    'clean.parent',
    'the restrictive policy does not hold for postern_owner',
  ],

  ['C4', 'alter role postern_findings bypassrls', 'postern_findings', 'has the attribute bypassrls'],
  ['C4', 'alter role postern_keys superuser', 'postern_keys', 'has the attribute superuser'],
  ['C4', 'alter role postern_sync createrole', 'postern_sync', 'has the attribute createrole'],
  ['C4', 'alter role postern_sync createdb', 'postern_sync', 'has the attribute createdb'],
  ['C4', 'alter role postern_evidence replication', 'postern_evidence', 'has the attribute replication'],
  ['C4', 'alter role postern_universe inherit', 'postern_universe', 'has the attribute inherit'],
  ['C4', 'alter role postern_owner bypassrls', 'postern_owner', 'has the attribute bypassrls'],
  ['C4', 'alter role postern_migrator bypassrls', 'postern_migrator', 'has the attribute bypassrls'],
  ['C4', 'alter role postern_keys_definer bypassrls', 'postern_keys_definer', 'has the attribute bypassrls'],
  ['C4', 'alter role postern_owner login', 'postern_owner', 'can log in'],
  ['C4', 'alter role postern_tenancy login', 'postern_tenancy', 'can log in'],
  ['C4', 'alter role postern_sync rename to postern_other', 'postern_sync', 'the role does not exist'],
  ['C4', 'grant postern_owner to postern_findings', 'postern_findings', 'is a member of postern_owner'],
  ['C4', 'grant pg_read_all_data to postern_sync', 'postern_sync', 'is a member of pg_read_all_data'],
  ['C4', 'grant postern_keys to postern_sync', 'postern_sync', 'is a member of postern_keys'],
  ['C4', 'grant pg_write_all_data to postern_keys_definer', 'postern_keys_definer', 'is a member of pg_write_all_data'],
  [
    'C4',
    'create role stranger; grant postern_keys_definer to stranger',
    'stranger',
    'is a member of postern_keys_definer',
  ],
  ['C4', 'create role stranger; grant postern_keys to stranger', 'stranger', 'is a member of postern_keys'],
  ['C4', 'grant postern_keys to postern_sync_b', 'postern_sync_b', 'is a member of postern_keys'],
  ['C4', 'grant postern_sync to postern_sync_b with inherit true', 'postern_sync_b', 'is a member of postern_sync'],
  ['C4', 'alter role postern_sync_b bypassrls', 'postern_sync_b', 'has the attribute bypassrls'],
  [
    'C4',
    'alter role postern_sync_b reset role',
    'postern_sync_b',
    'is not the role of its service from its first statement on',
  ],
  ['C4', 'alter table clean.parent owner to postern_sync_b', 'postern_sync_b', 'owns clean.parent'],
  ['C4', 'alter table clean.parent owner to postern_findings', 'postern_findings', 'owns clean.parent'],
  ['C4', 'alter table keys.thing owner to postern_keys_definer', 'postern_keys_definer', 'owns keys.thing'],
  ['C4', 'alter schema clean owner to postern_findings', 'postern_findings', 'owns schema clean'],
  ['C4', definer('postern_findings', "set search_path = ''"), 'postern_findings', 'owns clean.f()'],
  ['C4', `alter database ${name} owner to postern_sync`, 'postern_sync', `owns database ${name}`],

  [
    'C5',
    'grant truncate on clean.parent to postern_findings',
    'clean.parent',
    'truncate is granted to postern_findings',
  ],
  [
    'C5',
    'grant references on clean.parent to postern_findings',
    'clean.parent',
    'references is granted to postern_findings',
  ],
  [
    'C5',
    'grant references (id) on clean.parent to postern_findings',
    'clean.parent',
    'references is granted to postern_findings',
  ],
  ['C5', 'grant trigger on clean.parent to postern_findings', 'clean.parent', 'trigger is granted to postern_findings'],
  [
    'C5',
    'grant maintain on clean.parent to postern_findings',
    'clean.parent',
    'maintain is granted to postern_findings',
  ],
  [
    'C5',
    'grant truncate on keys.thing to postern_keys_definer',
    'keys.thing',
    'truncate is granted to postern_keys_definer',
  ],
  ['C5', 'grant select on clean.parent to public', 'clean.parent', 'select is granted to public'],
  ['C5', 'grant select (name) on clean.parent to public', 'clean.parent', 'select is granted to public'],
  [
    'C5',
    'grant select on clean.parent to postern_findings with grant option',
    'clean.parent',
    'postern_findings may grant select on',
  ],
  ['C5', 'grant create on schema clean to postern_findings', 'schema clean', 'create is granted to postern_findings'],
  [
    'C5',
    'grant create on schema keys to postern_keys_definer',
    'schema keys',
    'create is granted to postern_keys_definer',
  ],
  ['C5', 'grant usage on schema public to public', 'schema public', 'usage is granted to public'],
  ['C5', 'create function clean.f() returns integer language sql return 1', 'clean.f()', 'can be executed by public'],
  ['C5', `grant temporary on database ${name} to public`, `database ${name}`, 'temporary is granted to public'],
  ['C5', `grant create on database ${name} to postern_sync`, `database ${name}`, 'create is granted to postern_sync'],
  [
    'C5',
    'alter default privileges for role postern_owner grant execute on functions to public',
    'postern_owner',
    'its new functions can be executed by public',
  ],
  [
    'C5',
    'alter default privileges for role postern_owner grant select on tables to postern_sync',
    'postern_owner',
    'select on its new objects is granted to postern_sync',
  ],
  [
    'C5',
    'alter default privileges for role postern_owner in schema clean grant execute on functions to public',
    'postern_owner',
    'execute on its new objects is granted to public',
  ],

  [
    'C6',
    'alter table clean.child add constraint fk foreign key (parent_id) references clean.child (id)',
    'clean.child',
    'foreign key fk to clean.child does not begin with tenant_id on both sides',
  ],
  [
    'C6',
    `alter table clean.parent add constraint turned unique (id, tenant_id);
     alter table clean.child add constraint fk foreign key (parent_id, tenant_id) references clean.parent (id, tenant_id)`,
    'clean.child',
    'foreign key fk to clean.parent does not begin with tenant_id on both sides',
  ],

  [
    'C7',
    'alter table clean.parent add constraint u unique (name)',
    'clean.parent',
    'index clean.u is unique over all tenants',
  ],
  [
    'C7',
    'alter table clean.parent add constraint u unique (id, tenant_id)',
    'clean.parent',
    'index clean.u is unique over all tenants',
  ],
  [
    'C7',
    'create unique index u on clean.parent (lower(name))',
    'clean.parent',
    'index clean.u is unique over all tenants',
  ],
  [
    'C7',
    "create unique index u on clean.parent (name, tenant_id) where name <> ''",
    'clean.parent',
    'index clean.u is unique over all tenants',
  ],
  [
    'C7',
    'alter table clean.parent add constraint u exclude using btree (name with =)',
    'clean.parent',
    'index clean.u is unique over all tenants',
  ],

  [
    'C8',
    'alter view clean.names reset (security_invoker)',
    'clean.names',
    'view without security_invoker is granted to postern_findings',
  ],
  [
    'C8',
    'alter view clean.names set (security_invoker = off)',
    'clean.names',
    'view without security_invoker is granted to postern_findings',
  ],
  [
    'C8',
    'create materialized view clean.stored as select name from clean.parent; grant select on clean.stored to postern_findings',
    'clean.stored',
    'materialized view is granted to postern_findings',
  ],
  [
    'C8',
    `create foreign data wrapper elsewhere; create server elsewhere foreign data wrapper elsewhere;
     create foreign table clean.away (id uuid) server elsewhere; grant select on clean.away to postern_findings`,
    'clean.away',
    'foreign table is granted to postern_findings',
  ],

  [
    'C9',
    `${definer('postern_keys_definer', "set search_path = ''")}; grant execute on function clean.f() to postern_findings`,
    'clean.f()',
    'security definer, and runtime role postern_findings may call it',
  ],
  ['C9', definer('postern_keys_definer', ''), 'clean.f()', "security definer without: set search_path = ''"],
  [
    'C9',
    definer('postern_keys_definer', 'set search_path = clean'),
    'clean.f()',
    "security definer without: set search_path = ''",
  ],
  [
    'C9',
    definer('postern_owner', "set search_path = ''"),
    'clean.f()',
    'security definer, and runs as postern_owner, which is no definer',
  ],
  [
    'C9',
    definer('postgres', "set search_path = ''"),
    'clean.f()',
    'security definer, and runs as postgres, which is no definer',
  ],

  [
    'C10',
    'create function clean.f(text) returns boolean language sql leakproof return true',
    'clean.f(text)',
    'is leakproof',
  ],

  [
    'C11',
    `create function clean.f() returns trigger language plpgsql security definer set search_path = '' as 'begin return new; end';
     create trigger peeks before insert on clean.parent for each row execute function clean.f()`,
    'clean.parent',
    'trigger peeks runs clean.f(), which is security definer',
  ],
  ['C11', 'create rule away as on insert to clean.parent do instead nothing', 'clean.parent', 'has the rule away'],

  [
    'C12',
    'create sequence clean.counter; grant usage on sequence clean.counter to postern_findings',
    'clean.counter',
    'sequence is granted to postern_findings',
  ],
  [
    'C12',
    'alter table clean.parent add column number bigint generated always as identity',
    'clean.parent',
    'column number is numbered by a sequence',
  ],
  [
    'C12',
    'alter table clean.parent add column number bigserial',
    'clean.parent',
    'column number is numbered by a sequence',
  ],

  [
    'C13',
    `create table clean.slow (${columns}, primary key (id))`,
    'clean.slow',
    'no complete index begins with tenant_id',
  ],
  [
    'C13',
    `create table clean.slow (${columns}); create index i on clean.slow (tenant_id) where name <> ''`,
    'clean.slow',
    'no complete index begins with tenant_id',
  ],
  [
    'C13',
    `create table clean.slow (${columns}); create index i on clean.slow using hash (tenant_id)`,
    'clean.slow',
    'no complete index begins with tenant_id',
  ],
]
