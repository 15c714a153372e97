import { DatabaseError } from 'pg'
import { describe, expect, test } from 'vitest'
import {
  DatabaseTimeoutError,
  DatabaseUnavailableError,
  type TenantAssertion,
  type TenantDb,
  withRejectionsAsOutage,
  rejectOnOutage,
  sqlError,
} from '../src/index.ts'

/** A database whose calls all fail with this error. */
function failing(error: unknown): TenantDb {
  const reject = async (): Promise<never> => {
    throw error
  }
  return {
    read: reject,
    write: reject,
    follow: () => ({ [Symbol.asyncIterator]: () => ({ next: reject }) }),
    system: reject,
    ping: reject,
    databaseId: reject,
    close: reject,
    stats: () => ({ total: 1, idle: 2, waiting: 3 }),
  }
}

async function caught(asked: Promise<unknown>): Promise<unknown> {
  return await asked.then(
    () => 'answered',
    (error: unknown) => error,
  )
}

/** Returns the rejections of the three ways to run statements. */
async function rejections(db: TenantDb, tenant: TenantAssertion): Promise<unknown[]> {
  const followed = db.follow(tenant, async () => [], 1)[Symbol.asyncIterator]()
  return [
    await caught(db.read(tenant, async () => 1)),
    await caught(db.write(tenant, async () => 1)),
    await caught(followed.next()),
  ]
}

const stateOf = (code: string): DatabaseError =>
  Object.assign(new DatabaseError('reported by the server', 1, 'error'), { code })
const refused = stateOf('28000')
const shown = { assertion: 'v1.key.tenant.2000000000.mac' }

describe('errors that callers can retry', () => {
  const again = new Error('try again')
  const ask = async (error: unknown, tenant = shown): Promise<unknown[]> =>
    await rejections(
      rejectOnOutage(failing(error), (cause) => (expect(cause).toBe(error), again)),
      tenant,
    )

  test.each([
    ['no database', new DatabaseUnavailableError('none')],
    ['no answer in time', new DatabaseTimeoutError('late')],
    ['a deadlock', stateOf('40001')],
    ['a rejected assertion', refused],
  ])('%s', async (_what, error) => {
    expect(await ask(error)).toEqual([again, again, again])
  })

  test.each([stateOf('23505'), stateOf('42501'), new Error('ours')])('and not %s', async (error) => {
    expect(await ask(error)).toEqual([error, error, error])
  })

  test.each(['', 'v1', 'v1.key.tenant', 'v1.key.tenant..mac', 'v1.key.tenant.12x.mac', 'v1.key.tenant.x12.mac'])(
    'except a missing assertion: %j',
    async (assertion) => {
      expect(await ask(refused, { assertion })).toEqual([refused, refused, refused])
    },
  )

  test('except an assertion of another version', async () => {
    const assertion = 'v2.key.tenant.2000000000.mac'
    expect(await ask(refused, { assertion })).toEqual([refused, refused, refused])
  })
})

async function doubt(error: unknown, now: number, tenant = shown): Promise<unknown[]> {
  return await rejections(
    withRejectionsAsOutage(failing(error), () => now),
    tenant,
  )
}

describe('work that may outlive its assertion', () => {
  const end = 2_000_000_000_000

  test('treats the rejection of an unexpired assertion as an outage', async () => {
    const found = await doubt(refused, end - 1)
    expect(found.map((error) => sqlError(error).kind)).toEqual(Array(3).fill('unavailable'))
    for (const error of found) {
      expect(error).toMatchObject({ message: 'PostgreSQL rejected an assertion that has not expired', cause: refused })
    }
  })

  test('does not treat expired or missing assertions and other errors as outages', async () => {
    expect(await doubt(refused, end)).toEqual([refused, refused, refused])
    expect(await doubt(refused, 1, { assertion: '' })).toEqual([refused, refused, refused])
    const other = stateOf('42501')
    expect(await doubt(other, end - 1)).toEqual([other, other, other])
  })
})

test('passes all other calls to the database', async () => {
  const error = new Error('ours')
  for (const db of [
    rejectOnOutage(failing(error), () => new Error('no')),
    withRejectionsAsOutage(failing(error), () => 0),
  ]) {
    await expect(db.ping()).rejects.toBe(error)
    expect(db.stats()).toEqual({ total: 1, idle: 2, waiting: 3 })
  }
})
