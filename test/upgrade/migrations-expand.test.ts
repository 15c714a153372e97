import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Schema, migrationsOf, root, runningMigrations, schemas } from './releases.ts'

/** Statements that remove something that the previous release uses, or require what it does not provide. */
const contractions: readonly (readonly [string, RegExp])[] = [
  ['drops a table, a column or a schema', /\bdrop\s+(?:table|column|schema|type|view)\b/i],
  ['renames', /\brename\s+(?:to|column|constraint)\b/i],
  ['changes the type of a column', /\balter\s+column\s+\S+\s+(?:set\s+data\s+)?type\b/i],
  ['takes a default away', /\bdrop\s+default\b/i],
  ['asks for a value in a column that was there', /\bset\s+not\s+null\b/i],
  [
    'adds a column that must be given',
    /\badd\s+column\s+(?:(?!,|;|default|generated)[\s\S])*not\s+null(?:(?!,|;|default|generated)[\s\S])*[,;]/i,
  ],
]

/**
 * Statements that reject writes which were accepted before, on existing tables. `not valid` does not help, because the
 * running release writes new rows.
 */
const refusals: readonly (readonly [string, RegExp])[] = [
  [
    'checks more of',
    /\balter\s+table\s+(?:only\s+)?([\w.]+)(?:(?!;)[\s\S])*?\badd\s+(?:constraint\s+\w+\s+)?(?:check|unique|exclude|foreign\s+key|primary\s+key)\b/gi,
  ],
  [
    'checks a new column of',
    /\balter\s+table\s+(?:only\s+)?([\w.]+)(?:(?!;)[\s\S])*?\badd\s+column\b(?:(?!;|\badd\s)[\s\S])*?\b(?:check|unique|references)\b/gi,
  ],
  ['makes unique what is in', /\bcreate\s+unique\s+index\s+(?:concurrently\s+)?(?:\w+\s+)?on\s+(?:only\s+)?([\w.]+)/gi],
  ['sets a trigger on', /\bcreate\s+(?:or\s+replace\s+)?(?:constraint\s+)?trigger\s+\w+\s[^;]*?\bon\s+([\w.]+)/gi],
]

/**
 * A migration is one transaction, so it cannot create an index concurrently and blocks writes until it commits;
 * services give up after five seconds. `-- holds up writes: why that is short` allows it on an existing table.
 */
const indexes = /\bcreate\s+(?:unique\s+)?index\s+(?:\w+\s+)?on\s+(?:only\s+)?([\w.]+)/gi
const brief = /^-- holds up writes: .{20,}$/m

/**
 * Altering a table blocks readers, also during later slow steps of the same file: an index, or the validation of a
 * check. Add a check as `not valid` and validate it in another file. `-- holds up readers: why that is short` allows
 * it.
 */
const altered = /\balter\s+table\s+(?:only\s+)?([\w.]+)((?:(?!;)[\s\S])*)/gi
const validates = /\bvalidate\s+constraint\b/i
const checksRows = /\badd\s+(?:constraint\s+\w+\s+)?check\b(?:(?!\bnot\s+valid\b)[\s\S])*$/i
const briefly = /^-- holds up readers: .{20,}$/m

/** `-- contract: why the release before does without it` in a migration lets it take something away. */
const reasoned = /^-- contract: .{20,}$/m

/** `-- suits the running release: why it never writes what is now refused`, of the whole migration. */
const suiting = /^-- suits the running release: .{20,}$/m

function withoutComments(text: string): string {
  return text.replaceAll(/--[^\n]*/g, '')
}

function faultsIn(text: string): string[] {
  if (reasoned.test(text)) return []
  const statements = withoutComments(text)
  // To narrow what the same migration has given takes nothing away.
  const revoked = [...statements.matchAll(/\brevoke\b[^;]*\bon\s+(?:table\s+)?([\w.]+)\s+from\s+postern_/gi)]
  const taken = revoked.filter(([, table]) => !statements.includes(`protect_table('${table}'`))
  return [
    ...contractions.filter(([, pattern]) => pattern.test(statements)).map(([what]) => what),
    ...taken.map(([, table]) => `takes a right on ${table} away`),
  ]
}

/** The tables that were there and that a migration builds an index of. */
function heldUpBy(text: string): string[] {
  if (brief.test(text)) return []
  const statements = withoutComments(text)
  const made = [...statements.matchAll(/\bcreate\s+table\s+(?:if\s+not\s+exists\s+)?([\w.]+)/gi)].map(
    ([, name]) => name,
  )
  return [...statements.matchAll(indexes)].flatMap(([, table]) =>
    made.includes(table) ? [] : [`holds up writes to ${table}`],
  )
}

/** The tables that were there and that nobody reads while a migration goes through them. */
function hiddenBy(text: string): string[] {
  if (briefly.test(text)) return []
  const statements = withoutComments(text)
  const made = [...statements.matchAll(/\bcreate\s+table\s+(?:if\s+not\s+exists\s+)?([\w.]+)/gi)].map(
    ([, name]) => name,
  )
  const alterations = [...statements.matchAll(altered)].filter(([, table]) => !made.includes(table))
  const changes = alterations.filter(([, , what = '']) => !validates.test(what))
  const isBehind = (table: string | undefined, at: number): boolean =>
    changes.some(({ 1: other, index }) => other === table && index < at)
  return [
    ...changes.filter(([, , what = '']) => checksRows.test(what)).map(([, table]) => table),
    ...alterations
      .filter(({ 1: table, 2: what = '', index }) => validates.test(what) && isBehind(table, index))
      .map(([, table]) => table),
    ...[...statements.matchAll(indexes)]
      .filter(({ 1: table, index }) => isBehind(table, index))
      .map(([, table]) => table),
  ].map((table) => `holds up readers of ${table}`)
}

/** Returns what a migration newly rejects or changes in existing tables and functions. */
function refusalsIn(text: string): string[] {
  if (suiting.test(text)) return []
  const statements = withoutComments(text)
  const made = [...statements.matchAll(/\bcreate\s+table\s+(?:if\s+not\s+exists\s+)?([\w.]+)/gi)].map(
    ([, name]) => name,
  )
  const found = refusals.flatMap(([what, pattern]) =>
    [...statements.matchAll(pattern)]
      .filter(([, table]) => !made.includes(table))
      .map(([, table]) => `${what} ${table}`),
  )
  const replaced = [...statements.matchAll(/\bcreate\s+or\s+replace\s+(?:function|procedure)\s+([\w.]+)/gi)]
  return [...new Set([...found, ...replaced.map(([, name]) => `replaces ${name}`)])]
}

function faultsAfter(last: Readonly<Record<Schema, string>>, find: (text: string) => string[]): string[] {
  return schemas.flatMap((schema) => {
    const folder = migrationsOf(schema)
    return readdirSync(join(root, folder))
      .filter((name) => name.slice(0, 6) > last[schema])
      .flatMap((name) =>
        find(readFileSync(join(root, folder, name), 'utf8')).map((fault) => `${folder}/${name} ${fault}`),
      )
  })
}

const running = runningMigrations()

test('migrations since the last release remove nothing that its services use', () => {
  expect(faultsAfter(running, faultsIn)).toEqual([])
})

test('migrations reject no write of the running release, or explain why it does not occur', () => {
  expect(faultsAfter(running, refusalsIn)).toEqual([])
})

test('migrations build no index on an existing table, or explain why writes are not blocked for long', () => {
  expect(faultsAfter(running, heldUpBy)).toEqual([])
})

test('migrations scan no table after changing it in the same transaction', () => {
  expect(faultsAfter(running, hiddenBy)).toEqual([])
})

test('every schema starts with one file that creates it', () => {
  expect(schemas.map((schema) => readdirSync(join(root, migrationsOf(schema))).toSorted()[0])).toEqual(
    schemas.map(() => '000001_create_schema.sql'),
  )
})

test.each([
  ['create index a_b on a.b (c);', ['holds up writes to a.b']],
  ['create unique index a_b on a.b (c);', ['holds up writes to a.b']],
  ['create table a.b (c int);\ncreate index a_b on a.b (c);', []],
  ['-- holds up writes: a row for each tenant, of which there are few\ncreate index a_b on a.b (c);', []],
])('%s', (statement, tables) => expect(heldUpBy(statement)).toEqual(tables))

test.each([
  ['alter table a.b add column c int;\ncreate index b_c on a.b (c);', ['holds up readers of a.b']],
  ['alter table a.b add column c int, add constraint d check (c > 0);', ['holds up readers of a.b']],
  [
    'alter table a.b add constraint d check (c > 0) not valid;\nalter table a.b validate constraint d;',
    ['holds up readers of a.b'],
  ],
  ['alter table a.b add column c int, add constraint d check (c > 0) not valid;', []],
  ['alter table a.b validate constraint d;', []],
  ['create index b_c on a.b (c);\nalter table a.b add column d int;', []],
  ['alter table a.b add column c int;\ncreate index e_c on a.e (c);', []],
  ['-- holds up readers: a row for each tenant, of which there are few\nalter table a.b add check (c > 0);', []],
  ['create table a.b (c int);\nalter table a.b add check (c > 0);\ncreate index b_c on a.b (c);', []],
])('%s', (statement, tables) => expect(hiddenBy(statement)).toEqual(tables))

test.each([
  ['alter table keys.api_key drop column label;', 1],
  ['alter table keys.api_key rename column label to name;', 1],
  ['alter table keys.api_key alter column label type varchar(10);', 1],
  ['alter table keys.api_key add column owner text not null;', 1],
  ["alter table keys.api_key add column owner text not null default '';", 0],
  ['alter table keys.api_key add column owner text;', 0],
  ['alter table keys.api_key alter column label set not null;', 1],
  ['revoke update on keys.api_key from postern_keys;', 1],
  ['-- contract: nothing has read it since 1.0.0, which no longer runs\nalter table a drop column b;', 0],
])('%s', (statement, faults) => {
  expect(faultsIn(statement)).toHaveLength(faults)
})

describe('rejected from now on', () => {
  test.each([
    ["alter table keys.tenant add constraint tenant_slug check (slug <> '');", 'checks more of keys.tenant'],
    ['alter table keys.tenant add constraint a check (b) not valid;', 'checks more of keys.tenant'],
    [
      'alter table keys.tenant\n  drop constraint a,\n  add constraint b unique (tenant_id, c);',
      'checks more of keys.tenant',
    ],
    ['alter table a.b add constraint c foreign key (d) references e (f);', 'checks more of a.b'],
    ['alter table a.b add column c int check (c > 0);', 'checks a new column of a.b'],
    ['create unique index a_b on a.b (tenant_id, c);', 'makes unique what is in a.b'],
    [
      'create constraint trigger t after update on a.b deferrable for each row execute function f();',
      'sets a trigger on a.b',
    ],
    [
      'create trigger t before insert or update of c on a.b for each row execute function f();',
      'sets a trigger on a.b',
    ],
    ['create or replace function a.guard() returns trigger language sql as $$ $$;', 'replaces a.guard'],
  ])('%s', (statement, found) => {
    expect(refusalsIn(statement)).toEqual([found])
    expect(refusalsIn(`-- suits the running release: it has always written this so\n${statement}`)).toEqual([])
  })

  test.each([
    ['create table a.b (c int check (c > 0));\ncreate unique index d on a.b (c);'],
    ['create table a.b (c int);\ncreate trigger t before update on a.b for each row execute function f();'],
    ['create index a_b on a.b (c);\nalter table a.b add column d text;'],
    ['create function a.f() returns int language sql as $$ select 1 $$;'],
    ['alter table a.b drop constraint c;'],
  ])('and not %s', (statement) => expect(refusalsIn(statement)).toEqual([]))
})
