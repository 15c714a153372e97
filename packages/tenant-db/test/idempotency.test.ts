import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type IdempotencyStore, type Statement, type TenantDb, type Tx, openIdempotencyStore } from '../src/index.ts'
import { type TenantTables, createTenantTables } from './tenant-tables.ts'

let tables: TenantTables
let db: TenantDb
let memory: IdempotencyStore

beforeAll(async () => {
  tables = await createTenantTables()
  await tables.asOwner(`call tenancy.create_idempotency_table('probe', 'postern_findings')`)
  db = tables.open({ maxConnections: 4 })
  memory = openIdempotencyStore(db, 'probe')
})
afterAll(async () => await tables[Symbol.asyncDispose]())

const hash = (text: string): Buffer => createHash('sha256').update(text).digest()
const requestOf = (key: string, says = 'this') => ({ slot: hash(key), fingerprint: hash(says) })

/** A tenant and its claims, as if they were made some seconds earlier. */
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

describe('a claimed request', () => {
  test('is claimed by one of many concurrent attempts', async () => {
    const { tenant } = newTenant()
    const outcomes = await Promise.all(Array.from({ length: 8 }, async () => memory.claim(tenant, requestOf('k'))))
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(['claimed', ...Array(7).fill('in-flight')])
  })

  test('differs from another request with the same key, before and after its response', async () => {
    const { tenant } = newTenant()
    const claim = await claimed(tenant, 'k')
    expect(await memory.claim(tenant, requestOf('k', 'that'))).toEqual({ kind: 'other' })
    expect(await memory.storeSeparately(tenant, claim, 'done')).toBe(true)
    expect(await memory.claim(tenant, requestOf('k', 'that'))).toEqual({ kind: 'other' })
  })

  test('does not affect another tenant with the same key', async () => {
    const { tenant } = newTenant()
    await memory.storeSeparately(tenant, await claimed(tenant, 'k'), 'a secret of the first')
    expect(await memory.claim(newTenant().tenant, requestOf('k'))).toMatchObject({ kind: 'claimed' })
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'answered', answer: 'a secret of the first' })
  })

  test('can be claimed again after its release', async () => {
    const { tenant } = newTenant()
    await memory.release(tenant, await claimed(tenant, 'k'))
    expect(await memory.claim(tenant, requestOf('k'))).toMatchObject({ kind: 'claimed' })
  })
})

describe('an answer', () => {
  test('is stored if the change commits, and not if it is rolled back', async () => {
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

  test('is not removed by a late release', async () => {
    const { tenant } = newTenant()
    const claim = await claimed(tenant, 'k')
    await memory.storeSeparately(tenant, claim, 'done')
    await memory.release(tenant, claim)
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'answered', answer: 'done' })
  })

  test('is stored for 24 hours and then removed', async () => {
    const { tenant, age } = newTenant()
    await memory.storeSeparately(tenant, await claimed(tenant, 'k'), 'done')
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

describe('a claim of a dead process', () => {
  test('passes to one other attempt after a minute', async () => {
    const { tenant, age } = newTenant()
    await claimed(tenant, 'k')
    await age(50)
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'in-flight' })
    await age(20)
    const outcomes = await Promise.all(Array.from({ length: 4 }, async () => memory.claim(tenant, requestOf('k'))))
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(['claimed', 'in-flight', 'in-flight', 'in-flight'])
  })

  test('prevents the commit of a late first attempt', async () => {
    const { tenant, age } = newTenant()
    const first = await claimed(tenant, 'k')
    await age(70)
    const second = await claimed(tenant, 'k')
    expect(await db.write(tenant, async (tx) => await memory.keep(tx, first, 'late'))).toBe(false)
    expect(await db.write(tenant, async (tx) => await memory.keep(tx, second, 'in time'))).toBe(true)
    expect(await memory.claim(tenant, requestOf('k'))).toEqual({ kind: 'answered', answer: 'in time' })
  })
})

describe('the idempotency store of a schema', () => {
  test.each(['', 'Probe', 'probe; drop schema probe', 'probe"', '1probe', 'a'.repeat(41)])(
    'rejects the invalid schema name %j',
    (schema) => {
      expect(() => openIdempotencyStore(db, schema)).toThrow('not the name of a schema')
    },
  )

  test('accepts the longest name', () => {
    expect(() => openIdempotencyStore(db, `${'a'.repeat(39)}_`)).not.toThrow()
  })

  test('claims with an asynchronous commit, and stores and releases with a synchronous one', async () => {
    const waiting = tables.open({
      connectionString: `${tables.database.url('findings')}?options=${encodeURIComponent('-c synchronous_commit=on')}`,
    })
    const seen: string[] = []
    const watched = openIdempotencyStore(
      {
        write: async (tenant, work) =>
          await waiting.write(tenant, async (tx) => {
            const result = await work(tx)
            const text = `select current_setting('synchronous_commit') as setting`
            const [row] = await tx.query<{ setting: string }>({ text, values: [] })
            seen.push(row?.setting ?? '')
            return result
          }),
      },
      'probe',
    )
    const { tenant } = newTenant()
    const outcome = await watched.claim(tenant, requestOf('k'))
    if (outcome.kind !== 'claimed') throw new Error('not claimed')
    await watched.storeSeparately(tenant, outcome.claim, 'done')
    await watched.release(tenant, outcome.claim)
    expect(seen).toEqual(['off', 'on', 'on'])
  })

  test('prepares each statement once, under a name with its schema', async () => {
    const issued: (string | undefined)[] = []
    const watched = openIdempotencyStore(
      {
        write: async (tenant, work) =>
          await db.write(
            tenant,
            async (tx) =>
              await work({
                query: async (statement) => (issued.push(statement.name), await tx.query(statement)),
                execute: async (statement) => (issued.push(statement.name), await tx.execute(statement)),
              }),
          ),
      },
      'probe',
    )
    const { tenant, age } = newTenant()
    await watched.claim(tenant, requestOf('k'))
    await age(70)
    const outcome = await watched.claim(tenant, requestOf('k'))
    if (outcome.kind !== 'claimed') throw new Error('not claimed')
    await watched.storeSeparately(tenant, outcome.claim, 'done')
    await watched.release(tenant, outcome.claim)
    const each = ['claim', 'read', 'claim', 'read', 'take_over', 'keep', 'release']
    expect(issued.filter((name) => name !== 'postern_set_asynchronous_commit')).toEqual(
      each.map((name) => `probe_idempotency_${name}`),
    )
  })
})

/** Returns the outcome if the table contains this row and another attempt may take it over first. */
async function outcomeOf(found: object | undefined, taken: 0 | 1): Promise<unknown> {
  const tx = {
    execute: async ({ name = '' }: Statement) => (name.endsWith('take_over') ? taken : 0),
    query: async () => (found === undefined ? [] : [{ fingerprint: hash('this'), claim_id: 'a', ...found }]),
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- rows as PostgreSQL gives them
  const memoryOf = openIdempotencyStore({ write: async (_tenant, work) => await work(tx as unknown as Tx) }, 'probe')
  return await memoryOf.claim(newTenant().tenant, requestOf('k'))
}

describe('a row that prevented a claim', () => {
  const open = { answer: null, is_forgotten: false, is_abandoned: false }

  test('that was released in the meantime is not claimed', async () => {
    expect(await outcomeOf(undefined, 1)).toEqual({ kind: 'in-flight' })
  })

  test('that another attempt took first is not claimed', async () => {
    expect(await outcomeOf({ ...open, is_abandoned: true }, 1)).toMatchObject({ kind: 'claimed' })
    expect(await outcomeOf({ ...open, is_abandoned: true }, 0)).toEqual({ kind: 'in-flight' })
  })

  test('whose response is too old is free', async () => {
    const old = { ...open, answer: 'old', is_forgotten: true }
    expect(await outcomeOf(old, 1)).toMatchObject({ kind: 'claimed' })
    expect(await outcomeOf({ ...old, fingerprint: hash('that') }, 1)).toMatchObject({ kind: 'claimed' })
    expect(await outcomeOf({ ...old, is_forgotten: false }, 1)).toEqual({ kind: 'answered', answer: 'old' })
  })
})
