/** SQL of an attacker with the database role of a service. */
export interface HostileStatement {
  readonly aim: string
  readonly text: string
  /** Cannot be tried as a superuser, because it would cause damage beyond the transaction. */
  readonly uncontrolled?: true
}

/** Statements that no service role may run. Each is valid for a superuser in a transaction. */
export const forbiddenStatements: readonly HostileStatement[] = [
  // To become another role.
  ...[
    'postern_owner',
    'postern_migrator',
    'postern_tenancy',
    'postern_keys_definer',
    'postern_findings_definer',
    'postern_evidence_definer',
  ].flatMap((role) => [
    { aim: `to take on ${role}`, text: `set role ${role}` },
    { aim: `to take on ${role} by a function`, text: `select set_config('role', '${role}', true)` },
    { aim: `to be ${role} from now on`, text: `set session authorization ${role}` },
    {
      aim: `to be ${role} from now on by a function`,
      text: `select set_config('session_authorization', '${role}', true)`,
    },
    { aim: `to become a member of ${role}`, text: `grant ${role} to current_user with set true` },
  ]),
  { aim: 'to take on the owner in a block', text: "do $$ begin execute 'set role postern_owner'; end $$" },
  { aim: 'to be above row security', text: 'alter role current_user bypassrls' },
  { aim: 'to be a superuser', text: 'alter role current_user superuser' },
  { aim: 'to make roles', text: 'alter role current_user createrole' },
  { aim: 'to change the password of another', text: "alter role postern_migrator password 'x'" },
  { aim: 'to make a role', text: 'create role mine' },
  // To switch off protections.
  { aim: 'to switch triggers and foreign keys off', text: 'set session_replication_role = replica' },
  { aim: 'to switch them off by a function', text: "select set_config('session_replication_role', 'replica', true)" },
  { aim: 'to change the configuration', text: 'grant alter system on parameter row_security to current_user' },
  { aim: 'to change the database', text: "alter database %DATABASE% set row_security = 'off'" },
  {
    aim: 'to replace the function that decides',
    text: "create or replace function tenancy.tenant_id() returns uuid language sql as 'select gen_random_uuid()'",
  },
  { aim: 'to give that function another search_path', text: 'alter function tenancy.tenant_id() reset search_path' },
  { aim: 'to own that function', text: 'alter function tenancy.tenant_id() owner to current_user' },
  // To plant code that others run.
  ...['public', 'extensions', 'tenancy', 'keys', 'findings', 'universe', 'evidence', 'sync'].flatMap((schema) => [
    { aim: `to make a function in ${schema}`, text: `create function ${schema}.lower(uuid) returns text return ''` },
    { aim: `to make a view in ${schema}`, text: `create view ${schema}.loot as select 1` },
  ]),
  { aim: 'to make a function in pg_catalog', text: "create function pg_catalog.lower(uuid) returns text return ''" },
  {
    aim: 'to make an operator that comes before the built-in one',
    text: 'create operator extensions.= (function = int48eq, leftarg = integer, rightarg = bigint)',
  },
  { aim: 'to make a table', text: 'create table extensions.loot (row_data jsonb)' },
  { aim: 'to make a table by a query', text: 'select 1 into extensions.loot' },
  {
    aim: 'to make a temporary table, which comes first on every search_path',
    text: 'create temporary table loot (a int)',
  },
  { aim: 'to make a temporary function', text: 'create function pg_temp.lower(uuid) returns text return 1::text' },
  { aim: 'to make a temporary view', text: 'create temporary view loot as select 1' },
  { aim: 'to make a schema', text: 'create schema mine' },
  { aim: 'to make a cast', text: 'create cast (uuid as bytea) with inout' },
  { aim: 'to make a rule', text: 'create rule mine as on insert to findings.finding do instead nothing' },
  {
    aim: 'to make a trigger',
    text: 'create trigger mine before insert on findings.finding for each row execute function tenancy.refuse_change()',
  },
  {
    aim: 'to make an event trigger',
    text: 'create event trigger mine on ddl_command_start execute function tenancy.refuse_change()',
    uncontrolled: true,
  },
  { aim: 'to take in an extension', text: 'create extension pg_trgm' },
  { aim: 'to make a language', text: 'create trusted language mine handler plpgsql_call_handler' },
  { aim: 'to make a publication', text: 'create publication mine for all tables' },
  {
    aim: 'to make a subscription',
    text: "create subscription mine connection 'dbname=postgres' publication mine with (connect = false)",
  },
  { aim: 'to make a server elsewhere', text: 'create foreign data wrapper mine' },
  // To read shared data.
  { aim: 'to read passwords', text: 'select rolpassword from pg_authid' },
  { aim: 'to read statistics of values', text: 'select stavalues1 from pg_statistic' },
  { aim: 'to read statistics of pairs of values', text: 'select stxdmcv from pg_statistic_ext_data' },
  { aim: 'to read large objects past their owners', text: 'select data from pg_largeobject' },
  { aim: 'to read the secrets', text: 'select secret from tenancy.assertion_secret' },
  { aim: 'to read what they are hashed with', text: 'select inner_pad from tenancy.assertion_secret' },
  { aim: 'to try a secret of its own', text: "select tenancy.is_valid('', '', '')" },
  { aim: 'to read who may connect', text: 'select * from pg_hba_file_rules' },
  // To leave the database.
  { aim: 'to read a file', text: "select pg_read_file('PG_VERSION')" },
  { aim: 'to read a file as bytes', text: "select pg_read_binary_file('PG_VERSION')" },
  { aim: 'to list files', text: "select pg_ls_dir('.')" },
  { aim: 'to look at a file', text: "select pg_stat_file('PG_VERSION')" },
  { aim: 'to list the log', text: 'select pg_ls_waldir()' },
  { aim: 'to read a file into a large object', text: "select lo_import('PG_VERSION')" },
  { aim: 'to write a file', text: "copy (select 1) to '/dev/null'" },
  { aim: 'to run a program', text: "copy (select 1) to program 'cat'" },
  { aim: 'to see how the server was built', text: 'select * from pg_config' },
  { aim: 'to make a replication slot', text: "select pg_create_physical_replication_slot('mine')", uncontrolled: true },
  { aim: 'to switch the log', text: 'select pg_switch_wal()' },
  { aim: 'to have the configuration read again', text: 'select pg_reload_conf()' },
  // To keep data for other tenants outside of row security.
  { aim: 'to make a large object', text: 'select lo_create(0)' },
  { aim: 'to make a large object in another way', text: 'select lo_creat(-1)' },
  { aim: 'to make a large object with content', text: "select lo_from_bytea(0, 'loot')" },
  // To destroy data.
  { aim: 'to empty a table', text: 'truncate findings.reference_counter' },
  { aim: 'to drop a table', text: 'drop table keys.idempotency_record' },
  { aim: 'to drop an index', text: 'drop index keys.idempotency_record_by_claimed_at' },
]
