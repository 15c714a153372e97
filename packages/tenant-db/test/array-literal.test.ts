import { createTestDatabase } from '@postern/local-stack/testing'
import { expect, test } from 'vitest'
import { arrayLiteral, openTenantDb } from '../src/index.ts'

test('PostgreSQL reads the same array', async () => {
  const database = await createTestDatabase()
  const db = openTenantDb({
    connectionString: database.url('superuser'),
    maxConnections: 1,
    connectTimeoutMs: 5_000,
    queryTimeoutMs: 10_000,
    applicationName: 'tenant-db-tests',
  })
  const texts = [
    'plain',
    '',
    'NULL',
    'null',
    '{a,b}',
    'a"b',
    String.raw`a\b\n`,
    'line\nfeed\ttab',
    ' spaces ',
    'é 😀',
    undefined,
  ]
  const bytes = [Buffer.from([0, 255, 34, 92]), Buffer.alloc(0), undefined]
  // Unchanged, without escapes.
  const plain = ['plain', '', 'NULL', 'null', '{a,b}', ' spaces ', 'é 😀 \u2028', undefined]
  const objects = [{ a: 'x"y\\z', b: [1, null] }, {}, { text: 'line\nfeed\t\u0001 é 😀 \u2028' }, undefined]
  const [row] = await db.system(
    async (tx) =>
      await tx.query({
        text: `select $1::text[] as texts, $2::double precision[] as numbers, $3::bytea[] as bytes,
          array_to_json($4::jsonb[]) as objects, $5::text[] as none,
          $6::text[] as plain`,
        values: [texts, [1, -2.5, undefined], bytes, objects, [], plain].map(arrayLiteral),
      }),
  )
  await db.close()
  expect(row).toEqual({
    texts: texts.map((text) => text ?? null),
    numbers: [1, -2.5, null],
    bytes: bytes.map((one) => one ?? null),
    objects: objects.map((one) => one ?? null),
    none: [],
    plain: plain.map((text) => text ?? null),
  })
})

test.each([
  // As JSON, which is much faster if nothing needs escapes.
  [['a', undefined], '{"a",null}'],
  [[null, 'a'], '{null,"a"}'],
  [[1, -2.5, null, undefined], '{1,-2.5,null,null}'],
  [[], '{}'],
  [[{ a: 'b' }, undefined], String.raw`{"{\"a\":\"b\"}",null}`],
  [[null, { a: 'b' }], String.raw`{null,"{\"a\":\"b\"}"}`],
  [[{ a: '"\n' }], String.raw`{"{\"a\":\"\\\"\\n\"}"}`],
  // One by one, if PostgreSQL escapes differently or JSON cannot represent the value.
  [[String.raw`a\b`, null, undefined, 1], String.raw`{"a\\b",NULL,NULL,1}`],
  [['"', 'a'], String.raw`{"\"","a"}`],
  [['\\'], String.raw`{"\\"}`],
  [[Number.NaN, Infinity, 2], '{NaN,Infinity,2}'],
  [[{ a: 'b' }, 1], String.raw`{"{\"a\":\"b\"}",1}`],
  [[Buffer.from([0, 255])], String.raw`{"\\x00ff"}`],
])('%j is written %s', (values, literal) => {
  expect(arrayLiteral(values)).toBe(literal)
})
