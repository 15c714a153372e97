import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type KeysUnderTest, LeaseHolder, newKey, newTenant, sql, startKeys } from './service.ts'

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys()
})
afterAll(async () => await service.close())

const change = (id: string) => sql(`update keys.api_key set label = label || '!' where id = $1`, id)

describe('the revocation log', () => {
  test('shows entries in the order of their numbers if transactions commit in a different order', async () => {
    const admin = await newTenant(service)
    const [early, late] = [await newKey(service, admin), await newKey(service, admin)]
    const gateway = await new LeaseHolder(service.ask).take()
    const start = gateway.cursor ?? 0

    const isHeld = Promise.withResolvers<void>()
    const mayCommit = Promise.withResolvers<void>()
    const assertion = service.assertionOf(admin.tenantId)
    const earlyCommit = service.asService.write(assertion, async (tx) => {
      await tx.execute(change(early.id))
      isHeld.resolve()
      await mayCommit.promise
    })
    await isHeld.promise
    // The later transaction commits first and gets the lower number.
    await service.asService.write(assertion, async (tx) => await tx.execute(change(late.id)))
    expect(await gateway.renew()).toMatchObject({
      cursor: start + 1,
      revocations: [{ seq: start + 1, hash: late.hash }],
    })
    mayCommit.resolve()
    await earlyCommit
    expect(await gateway.renew()).toMatchObject({
      cursor: start + 2,
      revocations: [{ seq: start + 2, hash: early.hash }],
    })
    await gateway.release()
  })

  test('makes the second commit wait for the first number, so that there are no gaps', async () => {
    const admin = await newTenant(service)
    const [first, second] = [await newKey(service, admin), await newKey(service, admin)]
    const gateway = await new LeaseHolder(service.ask).take()
    const start = gateway.cursor ?? 0

    const hasNumber = Promise.withResolvers<void>()
    const mayCommit = Promise.withResolvers<void>()
    const assertion = service.assertionOf(admin.tenantId)
    const firstCommit = service.asService.write(assertion, async (tx) => {
      await tx.execute(change(first.id))
      await tx.execute(sql('set constraints all immediate'))
      hasNumber.resolve()
      await mayCommit.promise
    })
    await hasNumber.promise
    let isCommitted = false
    const secondCommit = service.asService
      .write(assertion, async (tx) => await tx.execute(change(second.id)))
      .finally(() => {
        isCommitted = true
      })
    await expect.poll(async () => await waitingForLock(), { interval: 5 }).toBe(1)
    expect(isCommitted).toBe(false)
    expect(await gateway.renew()).toMatchObject({ cursor: start, revocations: [] })
    mayCommit.resolve()
    await Promise.all([firstCommit, secondCommit])
    expect((await gateway.renew()).revocations).toMatchObject([
      { seq: start + 1, hash: first.hash },
      { seq: start + 2, hash: second.hash },
    ])
    await gateway.release()
  })

  test('has no entry for a rolled-back change', async () => {
    const admin = await newTenant(service)
    const { id } = await newKey(service, admin)
    const gateway = await new LeaseHolder(service.ask).take()
    const start = gateway.cursor
    await expect(
      service.asService.write(service.assertionOf(admin.tenantId), async (tx) => {
        await tx.execute(sql(`update keys.api_key set label = 'x' where id = $1`, id))
        await tx.execute(sql('set constraints all immediate'))
        throw new Error('changed my mind')
      }),
    ).rejects.toThrow('changed my mind')
    expect(await gateway.renew()).toMatchObject({ granted: true, cursor: start, revocations: [] })
    await gateway.release()
  })

  test('has an entry for each person who loses access, and counts those of a transaction at once', async () => {
    const { tenantId } = await newTenant(service)
    const gateway = await new LeaseHolder(service.ask).take()
    const start = gateway.cursor ?? 0
    const people = 50
    const { counted, open } = await service.asSuperuser.system(async (tx) => {
      await tx.execute(
        sql(
          `insert into tenancy.directory_name (tenant_id, hash, person_id, source, is_active, is_current)
          select $1, sha256(i::text::bytea), gen_random_uuid(), 'people', true, true from generate_series(1, $2::integer) i`,
          tenantId,
          people,
        ),
      )
      const leave = sql('update tenancy.directory_name set is_active = false where tenant_id = $1', tenantId)
      await tx.execute(leave)
      // Another statement about the same people is no further change.
      await tx.execute(leave)
      await tx.execute(sql('set constraints all immediate'))
      const updates = sql(
        `select n_tup_upd::integer as n from pg_stat_xact_user_tables where relname = 'revocation_seq'`,
      )
      const left = sql(`select current_setting('keys.changed_people') as names`)
      return { counted: await tx.query(updates), open: await tx.query(left) }
    })
    expect([counted, open]).toEqual([[{ n: 1 }], [{ names: '' }]])
    const { revocations } = await gateway.renew()
    expect(revocations.map(({ seq }) => seq)).toEqual(Array.from({ length: people }, (_, at) => start + 1 + at))
    expect(new Set(revocations.map((each) => ('hash' in each ? each.hash : ''))).size).toBe(people)
    await gateway.release()
  })
})

async function waitingForLock(): Promise<number> {
  const rows = await service.asSuperuser.system(
    async (tx) =>
      await tx.query(
        sql(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`),
      ),
  )
  return rows.length
}
