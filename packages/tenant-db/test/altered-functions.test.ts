import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AssertionWorld, assertionChecks, createAssertionWorld } from './assertion-checks.ts'
import { openClient } from './tenant-tables.ts'

/*
 * Mutation tests do not cover SQL. This test alters the PostgreSQL functions that verify the tenant, one line at a
 * time: the assertion checks must detect each change.
 */

let world: AssertionWorld

beforeAll(async () => {
  world = await createAssertionWorld()
})

afterAll(async () => {
  await world[Symbol.asyncDispose]()
})

/** Returns the first failing check. */
async function findFailure(): Promise<string | undefined> {
  for (const { title, run } of assertionChecks) {
    const [outcome] = await Promise.allSettled([run(world)])
    if (outcome.status === 'rejected') return title
  }
  return undefined
}

/** Replaces text in a function while `work` runs. */
async function altered<T>(routine: string, from: string, to: string, work: () => Promise<T>): Promise<T> {
  await using connection = await openClient(world.tables.database.url('superuser'))
  const { client } = connection
  const { rows } = await client.query<{ text: string }>('select pg_get_functiondef($1::regproc) as text', [routine])
  const text = rows[0]?.text ?? ''
  expect(text).toContain(from)
  await client.query(text.replace(from, () => to))
  try {
    return await work()
  } finally {
    await client.query(text)
  }
}

const valid = 'tenancy.is_valid'
const tenant = 'tenancy.tenant_id'
const operator = 'tenancy.assert_operator'
const isValid = 'tenancy.is_valid(assertion, inner_pad, outer_pad)'
const isCurrent = '(s.not_after is null or s.not_after > pg_catalog.statement_timestamp())'
const refusal = "raise exception using errcode = '28000', message = 'tenant assertion refused'"

const alterations: readonly (readonly [how: string, routine: string, from: string, to: string])[] = [
  ['has less room', valid, '<= 128', '<= 126'],
  ['takes any version', valid, "starts_with(assertion, 'v1.'::text)", 'true'],
  ['accepts every version with the same prefix', valid, "'v1.'::text", "'v1'::text"],
  ['does not check the MAC', valid, "(sha256((inner_pad || convert_to(assertion, 'UTF8'::name))) =", "(''::bytea <>"],
  ['uses half of the key twice', valid, 'sha256((outer_pad ||', 'sha256((inner_pad ||'],
  ['leaves out a character', valid, "'-44'::integer), 'UTF8'", "'-45'::integer), 'UTF8'"],
  ['encodes the MAC differently', valid, "'-_'::text", "'_-'::text"],
  ['accepts expired assertions', valid, '> (0)::numeric', "> ('-10000')::numeric"],
  ['rejects the last minute', valid, '> (0)::numeric', '> (60)::numeric'],
  ['uses the start of the transaction', valid, 'statement_timestamp()', 'transaction_timestamp()'],
  ['accepts longer lifetimes', valid, '<= (300)::numeric', '<= (400)::numeric'],
  ['rejects allowed lifetimes', valid, '<= (300)::numeric', '<= (200)::numeric'],
  ['uses the key of another id', tenant, "s.key_id = pg_catalog.split_part(assertion, '.', 2)", 'true'],
  ['accepts a retired key', tenant, isCurrent, 'true'],
  ['rejects keys with an end', tenant, isCurrent, '(s.not_after is null)'],
  ['accepts only keys with an end', tenant, 's.not_after is null or', ''],
  ['does not verify the assertion', tenant, isValid, 'true'],
  ['accepts invalid assertions', tenant, isValid, `not ${isValid}`],
  ['treats the operator as a tenant', tenant, "<> '00000000-0000", "<> '10000000-0000"],
  ['does not raise an error', tenant, refusal, 'return null'],
  ['says something else', tenant, "errcode = '28000'", "errcode = '42501'"],
  ['says why', tenant, "message = 'tenant assertion refused'", "message = 'expired'"],
  ['does not verify the operator', operator, isValid, 'true'],
  ['treats a tenant as the operator', operator, "= '00000000-0000", "<> '00000000-0000"],
  ['treats everyone as the operator', operator, refusal, 'return true'],
]

test('the unchanged functions pass all checks', async () => {
  expect(await findFailure()).toBeUndefined()
})

describe('the checks detect that PostgreSQL', () => {
  test.each(alterations)('%s', async (_how, routine, from, to) => {
    expect(await altered(routine, from, to, findFailure)).toBeDefined()
  })

  test('the functions are restored afterwards', async () => {
    expect(await findFailure()).toBeUndefined()
  })
})
