import type { TestDatabase } from '@postern/local-stack/testing'
import { createTestDatabase } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeSchema } from '../src/index.ts'
import { openClient } from './tenant-tables.ts'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})

afterAll(async () => {
  await database.drop()
})

async function asOwner(statements: string): Promise<void> {
  await using connection = await openClient(database.url('migrator'))
  await connection.client.query(`set role postern_owner; ${statements}`)
}

async function make(schema: string, statements: readonly string[]): Promise<void> {
  await asOwner(`create schema ${schema}; set search_path = ${schema}; ${statements.join(';')}`)
}

describe('describeSchema', () => {
  test('shows everything that affects rights, and nothing of other schemas', async () => {
    await asOwner(`
      create schema shown;
      create type shown.status as enum ('open', 'closed');
      create domain shown.label as text constraint label_length check (char_length(value) <= 40);
      create table shown.item (
        tenant_id uuid not null,
        id uuid not null default uuidv7(),
        label shown.label not null,
        status shown.status not null default 'open',
        doubled text generated always as (label || label) stored,
        constraint item_pk primary key (tenant_id, id),
        constraint item_label_full check (label <> '')
      );
      create index item_label on shown.item (tenant_id, label);
      comment on table shown.item is 'What is shown.';
      comment on column shown.item.label is 'It''s short.';
      create trigger item_append before delete on shown.item for each row execute function tenancy.refuse_change();
      call tenancy.protect_table('shown.item', 'postern_findings', array['select', 'insert']);
      grant update (label) on shown.item to postern_findings;
      create view shown.open_item with (security_invoker = true) as select id from shown.item where status = 'open';
      grant select on shown.open_item to postern_findings;
      create function shown.twice(n integer) returns integer language sql immutable return n * 2;
      grant execute on function shown.twice(integer) to postern_sync, postern_findings;
      create sequence shown.number as integer;
      grant usage on sequence shown.number to postern_findings;`)
    expect(await describeSchema(database.url('superuser'), 'shown')).toMatchInlineSnapshot(`
      "create schema shown authorization postern_owner;
      grant usage on schema shown to postern_findings;

      create domain shown.label as text
        constraint label_length CHECK ((char_length(VALUE) <= 40));

      create type shown.status as enum ('open', 'closed');

      create sequence shown.number as integer;
      grant usage on sequence shown.number to postern_findings;

      create table shown.item (
        tenant_id uuid not null,
        id uuid not null default uuidv7(),
        label shown.label not null,
        status shown.status not null default 'open'::shown.status,
        doubled text generated always as (((label)::text || (label)::text)) stored,
        constraint item_pk PRIMARY KEY (tenant_id, id),
        constraint item_label_full CHECK (((label)::text <> ''::text))
      );
      CREATE INDEX item_label ON shown.item USING btree (tenant_id, label);
      CREATE TRIGGER item_append BEFORE DELETE ON shown.item FOR EACH ROW EXECUTE FUNCTION tenancy.refuse_change();
      alter table shown.item enable row level security;
      alter table shown.item force row level security;
      create policy postern_findings_insert on shown.item as permissive for insert to postern_findings with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
      create policy postern_findings_select on shown.item as permissive for select to postern_findings using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
      create policy tenant_only on shown.item as restrictive for all to public using ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id))) with check ((tenant_id = ( SELECT tenancy.tenant_id() AS tenant_id)));
      grant insert, select on table shown.item to postern_findings;
      grant update (label) on table shown.item to postern_findings;
      comment on table shown.item is 'What is shown.';
      comment on column shown.item.label is 'It''s short.';

      create view shown.open_item with (security_invoker=true) as
       SELECT id
         FROM shown.item
        WHERE (status = 'open'::shown.status);
      grant select on table shown.open_item to postern_findings;

      CREATE OR REPLACE FUNCTION shown.twice(n integer)
       RETURNS integer
       LANGUAGE sql
       IMMUTABLE
      RETURN (n * 2);
      grant execute on routine shown.twice(integer) to postern_findings;
      grant execute on routine shown.twice(integer) to postern_sync;
      "
    `)
  })

  test('is the same in every run, whatever the order of creation', async () => {
    const statements = [
      'create table b (id uuid)',
      'create table a (id uuid)',
      'create function g() returns integer language sql return 1',
      'create function f() returns integer language sql return 1',
    ]
    await make('forward', statements)
    await make('backward', statements.toReversed())
    const forward = await describeSchema(database.url('migrator'), 'forward')
    const backward = await describeSchema(database.url('superuser'), 'backward')
    expect(backward.replaceAll('backward', 'forward')).toBe(forward)
    expect(forward).toContain('create table forward.a')
  })

  test('qualifies all names, whatever the search path, and omits objects of extensions', async () => {
    await make('named', ['create table item (id uuid)', 'create view all_items as select id from named.item'])
    const before = await describeSchema(database.url('superuser'), 'named')
    await using connection = await openClient(database.url('superuser'))
    await connection.client.query('create extension pg_trgm schema named')
    const url = new URL(database.url('superuser'))
    url.searchParams.set('options', '-c search_path=named')
    expect(await describeSchema(url.href, 'named')).toBe(before)
    expect(before).toContain('create table named.item')
  })
})
