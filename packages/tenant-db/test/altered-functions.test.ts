import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AssertionWorld, assertionChecks, createAssertionWorld } from './assertion-checks.ts'
import { openClient } from './tenant-tables.ts'

/*
 * Mutation tests alter no SQL (verification/mutation). The functions in PostgreSQL that decide who the tenant is are altered here,
 * one thing at a time: the checks of assertions must notice each.
 */

let world: AssertionWorld

beforeAll(async () => {
  world = await createAssertionWorld()
})

afterAll(async () => {
  await world[Symbol.asyncDispose]()
})

/** The first check that fails. */
async function findFailure(): Promise<string | undefined> {
  for (const { title, run } of assertionChecks) {
    const [outcome] = await Promise.allSettled([run(world)])
    if (outcome.status === 'rejected') return title
  }
  return undefined
}

/** Puts something else into a function for as long as `work` takes. */
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
  ['takes any version that begins alike', valid, "'v1.'::text", "'v1'::text"],
  ['looks at no mac', valid, "(sha256((inner_pad || convert_to(assertion, 'UTF8'::name))) =", "(''::bytea <>"],
  ['uses one half of the key twice', valid, 'sha256((outer_pad ||', 'sha256((inner_pad ||'],
  ['leaves out a character', valid, "'-44'::integer), 'UTF8'", "'-45'::integer), 'UTF8'"],
  ['writes a mac in other characters', valid, "'-_'::text", "'_-'::text"],
  ['takes what has expired', valid, '> (0)::numeric', "> ('-10000')::numeric"],
  ['takes nothing of the last minute', valid, '> (0)::numeric', '> (60)::numeric'],
  ['goes by the time of the transaction', valid, 'statement_timestamp()', 'transaction_timestamp()'],
  ['takes what lasts longer', valid, '<= (300)::numeric', '<= (400)::numeric'],
  ['takes what lasts less long only', valid, '<= (300)::numeric', '<= (200)::numeric'],
  ['takes the key of another id', tenant, "s.key_id = pg_catalog.split_part(assertion, '.', 2)", 'true'],
  ['takes a key that is over', tenant, isCurrent, 'true'],
  ['takes no key that is to be over', tenant, isCurrent, '(s.not_after is null)'],
  ['takes only keys that are to be over', tenant, 's.not_after is null or', ''],
  ['asks nobody whether it is valid', tenant, isValid, 'true'],
  ['takes what is not valid', tenant, isValid, `not ${isValid}`],
  ['takes the operator for a tenant', tenant, "<> '00000000-0000", "<> '10000000-0000"],
  ['says nothing of what it refuses', tenant, refusal, 'return null'],
  ['says something else', tenant, "errcode = '28000'", "errcode = '42501'"],
  ['says why', tenant, "message = 'tenant assertion refused'", "message = 'expired'"],
  ['asks nobody whether the operator is one', operator, isValid, 'true'],
  ['takes a tenant for the operator', operator, "= '00000000-0000", "<> '00000000-0000"],
  ['takes everybody for the operator', operator, refusal, 'return true'],
]

test('the functions as they are pass all checks', async () => {
  expect(await findFailure()).toBeUndefined()
})

describe('it is noticed where PostgreSQL', () => {
  test.each(alterations)('%s', async (_how, routine, from, to) => {
    expect(await altered(routine, from, to, findFailure)).toBeDefined()
  })

  test('and afterwards all is as it was', async () => {
    expect(await findFailure()).toBeUndefined()
  })
})
