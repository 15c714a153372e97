import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AnswerMemory, type TenantDb, openAnswerMemory } from '../src/index.ts'
import { type TenantTables, createTenantTables } from './tenant-tables.ts'

let tables: TenantTables
let db: TenantDb
let memory: AnswerMemory

beforeAll(async () => {
  tables = await createTenantTables()
  await tables.asOwner(`call tenancy.create_idempotency_table('probe', 'postern_findings')`)
  db = tables.open({ maxConnections: 4 })
  memory = openAnswerMemory(db, 'probe')
})
afterAll(async () => await tables[Symbol.asyncDispose]())

const hash = (text: string): Buffer => createHash('sha256').update(text).digest()
const requestOf = (key: string, says = 'this') => ({ slot: hash(key), fingerprint: hash(says) })

/** A tenant, and its claims as if they were made some seconds before. */
function newTenant() {
  const id = randomUUID()
  return {
    tenant: tables.mint(id),
    age: async (seconds: number) =>
      await db.write(tables.mint(id), async (tx) => {
        await tx.execute({
          text: 'update probe.idempotency_record set claimed_at = claimed_at - make_interval(secs => $1)',
          values: [seconds],
        })
      }),
  }
}

async function claimed(tenant: { readonly assertion: string }, key: string) {
  const outcome = await memory.claim(tenant, requestOf(key))
  if (outcome.kind !== 'claimed') throw new Error(`not claimed but ${outcome.kind}`)
  return outcome.claim
}

describe('a request that is claimed', () => {
  test('is claimed by one of many that come at once', async () => {
    const { tenant } = newTenant()
    const outcomes = await Promise.all(Array.from({ length: 8 }, async () => memory.claim(tenant, requestOf('k'))))
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(['claimed', ...Array(7).fill('in-flight')])
  })

  test('is told from another request under the same key, before and after it is answered', async () => {
    const { tenant } = newTenant()
    const claim = await claimed(tenant, 'k')
    expect(await memory.claim(tenant, requestOf('k', 'that'))).toEqual({ kind: 'other' })
    expect(await memory.keepAlone(tenant, claim, 'done')).toBe(true)
    expect(await memory.claim(tenant, requestOf('k', 'that'))).toEqual({ kind: 'other' })
  })

  test('is nothing to another tenant with the same key', async () => {
    const { tenant } = newTenant()
    await memory.keepAlone(tenant, await claimed(tenant, 'k'), 'a secret of the first')
    expect(await memory.claim(newTenant().tenant, requestOf('k'))).toMatchObject({ kind: 'claimed' })
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'answered', answer: 'a secret of the first' })
  })

  test('can be claimed again once it was given back', async () => {
    const { tenant } = newTenant()
    await memory.release(tenant, await claimed(tenant, 'k'))
    expect(await memory.claim(tenant, requestOf('k'))).toMatchObject({ kind: 'claimed' })
  })
})

describe('an answer', () => {
  test('is not kept when the change is rolled back, and is kept when it is committed', async () => {
    const { tenant } = newTenant()
    const claim = await claimed(tenant, 'k')
    const failing = db.write(tenant, async (tx) => {
      expect(await memory.keep(tx, claim, 'done')).toBe(true)
      throw new Error('the change fails')
    })
    await expect(failing).rejects.toThrow('the change fails')
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'in-flight' })
    expect(await db.write(tenant, async (tx) => await memory.keep(tx, claim, 'done'))).toBe(true)
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'answered', answer: 'done' })
  })

  test('is not taken away by who gives the claim back late', async () => {
    const { tenant } = newTenant()
    const claim = await claimed(tenant, 'k')
    await memory.keepAlone(tenant, claim, 'done')
    await memory.release(tenant, claim)
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'answered', answer: 'done' })
  })

  test('is kept for 24 hours, and removed after', async () => {
    const { tenant, age } = newTenant()
    await memory.keepAlone(tenant, await claimed(tenant, 'k'), 'done')
    await age(24 * 60 * 60 - 10)
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'answered', answer: 'done' })
    await age(20)
    await claimed(tenant, 'another')
    const left = await db.read(tenant, async (tx) =>
      tx.query({ text: 'select from probe.idempotency_record', values: [] }),
    )
    expect(left).toHaveLength(1)
    expect(await memory.claim(tenant, requestOf('k', 'that'))).toMatchObject({ kind: 'claimed' })
  })
})

describe('a claim whose process has died', () => {
  test('is left alone for a minute, then one other attempt gets it', async () => {
    const { tenant, age } = newTenant()
    await claimed(tenant, 'k')
    await age(50)
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'in-flight' })
    await age(20)
    const outcomes = await Promise.all(Array.from({ length: 4 }, async () => memory.claim(tenant, requestOf('k'))))
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(['claimed', 'in-flight', 'in-flight', 'in-flight'])
  })

  test('lets no late change of the first attempt be committed', async () => {
    const { tenant, age } = newTenant()
    const first = await claimed(tenant, 'k')
    await age(70)
    const second = await claimed(tenant, 'k')
    expect(await db.write(tenant, async (tx) => await memory.keep(tx, first, 'late'))).toBe(false)
    expect(await db.write(tenant, async (tx) => await memory.keep(tx, second, 'in time'))).toBe(true)
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'answered', answer: 'in time' })
  })
})
