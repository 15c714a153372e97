import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestDatabase, createTestDatabase } from '@postern/local-stack/testing'
import { Client, DatabaseError } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hostileTexts, isUnbounded } from '../support/hostile-text.ts'
import type { Pattern } from '../support/patterns.ts'

// What PostgreSQL matches: in constraints, triggers and functions, as its catalogs have them, and in statements of ours.
const root = join(import.meta.dirname, '..', '..')

let database: TestDatabase
let client: Client

beforeAll(async () => {
  database = await createTestDatabase()
  client = new Client({ connectionString: database.url('superuser') })
  await client.connect()
  await client.query("set statement_timeout = '3s'")
})

afterAll(async () => {
  await client.end()
  await database.drop()
})

/** `x ~ '…'`, with its opposites, and what functions of patterns take second. */
const written = /(?:[\w)]\s!?~\*?|similar to|regexp_\w+\([^']*,)\s*'((?:[^'\n]|'')+)'/g

function patternsIn(text: string, path: string): Pattern[] {
  return [...text.matchAll(written)].map(([, source = '']) => ({
    source: source.replaceAll("''", "'").replaceAll('\\\\', '\\'),
    flags: '',
    path,
  }))
}

async function inCatalogs(): Promise<Pattern[]> {
  const { rows } = await client.query<{ name: string; text: string }>(
    `select conname as name, pg_get_constraintdef(oid) as text from pg_constraint
      where contype = 'c' and connamespace::regnamespace::text !~ '^pg_|^information_schema$'
     union all
     select tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
     union all
     select proname, prosrc from pg_proc where pronamespace::regnamespace::text !~ '^pg_|^information_schema$|^extensions$'
     union all
     select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index as i
      where i.indexrelid::regclass::text !~ '^pg_'
     union all
     select viewname, definition from pg_views where schemaname !~ '^pg_|^information_schema$'
     union all
     select polname, coalesce(pg_get_expr(polqual, polrelid), '') || coalesce(pg_get_expr(polwithcheck, polrelid), '') from pg_policy
     order by 1`,
  )
  return rows.flatMap(({ name, text }) => patternsIn(text, name))
}

function inStatements(): Pattern[] {
  const paths = globSync(['packages/*/src/**/*.ts', 'services/*/src/**/*.ts'], { cwd: root }).toSorted()
  return paths
    .filter((path) => !/\.test\.ts$|\/testing\/|node_modules/.test(path))
    .flatMap((path) => patternsIn(readFileSync(join(root, path), 'utf8'), path))
}

/** Processor time that the session's server process has had, in milliseconds; where nobody tells, the time of day. */
function spent(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1_000_000
  } catch {
    return performance.now()
  }
}

const limitMs = 50

/** Returns a shortened text that takes PostgreSQL too long, or undefined. */
async function findSlow(pattern: Pattern, texts = hostileTexts(pattern)): Promise<string | undefined> {
  if (!isUnbounded(pattern)) return undefined
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  const pid = rows[0]?.pid ?? 0
  const timeOf = async (tried: readonly string[]): Promise<number> => {
    const before = spent(pid)
    try {
      await client.query('select bool_or(t ~ $1) from unnest($2::text[]) as t', [pattern.source, tried])
    } catch (error) {
      // query_canceled: it has taken longer than may be.
      if (error instanceof DatabaseError && error.code === '57014') return Infinity
      throw error
    }
    return spent(pid) - before
  }
  // A text of PostgreSQL holds no NUL.
  const all = [...texts].map((text) => text.replaceAll('\u0000', '\u0001'))
  if ((await timeOf(all)) < limitMs) return undefined
  for (const text of all) {
    // Three times, since the first may pay for what comes once.
    const times = [await timeOf([text]), await timeOf([text]), await timeOf([text])]
    if (Math.min(...times) > limitMs) return JSON.stringify(text.slice(0, 24))
  }
  return undefined
}

describe('every regular expression in PostgreSQL runs in linear time', () => {
  test('in catalogs and statements', { timeout: 120_000 }, async () => {
    const found = [...(await inCatalogs()), ...inStatements()]
    expect(found.map(({ path }) => path)).toEqual(
      expect.arrayContaining([
        'tenant_slug_form',
        'finding_guard_condition',
        'services/universe/src/hierarchy/store.ts',
      ]),
    )
    const different = [...new Map(found.map((pattern) => [pattern.source, pattern])).values()]
    expect(different.length).toBeGreaterThan(12)
    const slow: string[] = []
    for (const pattern of different) {
      const text = await findSlow(pattern)
      if (text !== undefined) slow.push(`${pattern.path} ${pattern.source} on ${text}`)
    }
    expect(slow).toEqual([])
  })

  test('control: a pattern with a back reference is detected', { timeout: 60_000 }, async () => {
    // A prime number of letters is no multiple of any part of it.
    const texts = new Set(['a'.repeat(8009)])
    expect(await findSlow({ source: '^(aa+)\\1+$', flags: '', path: 'planted' }, texts)).toBeDefined()
    expect(await findSlow({ source: '^(?:aa+)+$', flags: '', path: 'planted' }, texts)).toBeUndefined()
  })
})
