import { DatabaseError } from 'pg'
import { describe, expect, test } from 'vitest'
import {
  DatabaseTimeout,
  DatabaseUnavailable,
  type TenantAssertion,
  type TenantDb,
  doubtingAsAway,
  refusingWhenAway,
  sqlError,
} from '../src/index.ts'

/** A database that fails with this, however it is asked. */
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

/** What each of the three ways of asking rejects with. */
async function rejections(db: TenantDb, tenant: TenantAssertion): Promise<unknown[]> {
  const followed = db.follow(tenant, async () => [], 1)[Symbol.asyncIterator]()
  return [
    await caught(db.read(tenant, async () => 1)),
    await caught(db.write(tenant, async () => 1)),
    await caught(followed.next()),
  ]
}

const stateOf = (code: string): DatabaseError =>
  Object.assign(new DatabaseError('said by the server', 1, 'error'), { code })
const refused = stateOf('28000')
const shown = { assertion: 'v1.key.tenant.2000000000.mac' }

describe('what a service tells its callers to try again', () => {
  const again = new Error('try again')
  const ask = async (error: unknown, tenant = shown): Promise<unknown[]> =>
    await rejections(
      refusingWhenAway(failing(error), (cause) => (expect(cause).toBe(error), again)),
      tenant,
    )

  test.each([
    ['no database', new DatabaseUnavailable('none')],
    ['no answer in time', new DatabaseTimeout('late')],
    ['one of two that were in each other’s way', stateOf('40001')],
    ['an assertion that was shown', refused],
  ])('%s', async (_what, error) => {
    expect(await ask(error)).toEqual([again, again, again])
  })

  test.each([stateOf('23505'), stateOf('42501'), new Error('ours')])('and not %s', async (error) => {
    expect(await ask(error)).toEqual([error, error, error])
  })

  test.each(['', 'v1', 'v1.key.tenant', 'v1.key.tenant..mac', 'v1.key.tenant.12x.mac', 'v1.key.tenant.x12.mac'])(
    'nor that nothing was shown: %j',
    async (assertion) => {
      expect(await ask(refused, { assertion })).toEqual([refused, refused, refused])
    },
  )

  test('nor an assertion of another version, which no gateway of ours makes', async () => {
    const assertion = 'v2.key.tenant.2000000000.mac'
    expect(await ask(refused, { assertion })).toEqual([refused, refused, refused])
  })
})

async function doubt(error: unknown, now: number, tenant = shown): Promise<unknown[]> {
  return await rejections(
    doubtingAsAway(failing(error), () => now),
    tenant,
  )
}

describe('work that may take longer than an assertion lives', () => {
  const end = 2_000_000_000_000

  test('finds the database away where an assertion is refused whose time is not over', async () => {
    const found = await doubt(refused, end - 1)
    expect(found.map((error) => sqlError(error).kind)).toEqual(Array(3).fill('unavailable'))
    for (const error of found) {
      expect(error).toMatchObject({ message: 'PostgreSQL does not believe an assertion of now', cause: refused })
    }
  })

  test('and not where it is over, where there is none, or where something else is wrong', async () => {
    expect(await doubt(refused, end)).toEqual([refused, refused, refused])
    expect(await doubt(refused, 1, { assertion: '' })).toEqual([refused, refused, refused])
    const other = stateOf('42501')
    expect(await doubt(other, end - 1)).toEqual([other, other, other])
  })
})

test('everything else is asked of the database itself', async () => {
  const error = new Error('ours')
  for (const db of [refusingWhenAway(failing(error), () => new Error('no')), doubtingAsAway(failing(error), () => 0)]) {
    await expect(db.ping()).rejects.toBe(error)
    expect(db.stats()).toEqual({ total: 1, idle: 2, waiting: 3 })
  }
})
