import type { Connector, Run } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { describe, expect, test } from 'vitest'
import { useRuns } from './run-support.ts'
import { admin } from './support.ts'

const { parts, work, create, now, runCsv, undo } = useRuns()

const follows = { missing_policy: 'deactivate', safety: { max_deactivate_pct: 100, min_rows: 0, max_change_pct: 100 } }

/** Two connectors of a dataset, and how rows of theirs stand. */
async function two(tenant: Principal, dataset: 'auditable_entities' | 'people') {
  const isOfEntities = dataset === 'auditable_entities'
  const [one, other] = [await create(tenant, { dataset, ...follows }), await create(tenant, { dataset, ...follows })]
  const read = async (connector: Connector, ...keys: string[]): Promise<Run> => {
    const head = isOfEntities ? 'external_id,name,type' : 'external_id,name'
    const lines = keys.map((key) => (isOfEntities ? `${key},${key},process` : `${key},${key}`))
    return await runCsv(tenant, connector, [head, ...lines].join('\n'))
  }
  const active = async (): Promise<unknown[]> => {
    const [table, is] = isOfEntities ? ['entity', `status = 'active'`] : ['person', 'active']
    const text = `select external_id as key from universe.${table} where tenant_id = $1 and ${is} order by 1`
    return (await parts().world.rows(text, [tenant.tenantId])).map(({ key }) => key)
  }
  return { one, other, read, active }
}

const nothing = { missing: 0, deactivated: 0, applied: 0 }

describe.each(['auditable_entities', 'people'] as const)('of %s, what two sources have', (dataset) => {
  test('stays active while one of them has it, if the last reader loses it', async () => {
    const { one, other, read, active } = await two(admin(), dataset)
    await read(one, 'x', 'y')
    await read(other, 'x', 'z')
    expect(await read(other, 'z')).toMatchObject({ status: 'succeeded', counts: nothing })
    expect(await active()).toEqual(['x', 'y', 'z'])
    expect(await read(one, 'x', 'y')).toMatchObject({ counts: { unchanged: 2, ...nothing } })
    expect(await read(one, 'y')).toMatchObject({ counts: { deactivated: 1, missing: 1 } })
    expect(await active()).toEqual(['y', 'z'])
  })

  test('stays active while one of them has it, if the first reader loses it', async () => {
    const { one, other, read, active } = await two(admin(), dataset)
    await read(one, 'x', 'y')
    await read(other, 'x', 'z')
    expect(await read(one, 'y')).toMatchObject({ status: 'succeeded', counts: nothing })
    expect(await read(other, 'x', 'z')).toMatchObject({ counts: { unchanged: 2, ...nothing } })
    expect(await active()).toEqual(['x', 'y', 'z'])
    expect(await read(other, 'z')).toMatchObject({ counts: { deactivated: 1, missing: 1 } })
    expect(await active()).toEqual(['y', 'z'])
  })

  test('becomes inactive once both have lost it', async () => {
    const { one, other, read, active } = await two(admin(), dataset)
    await read(one, 'x')
    await read(other, 'x')
    await read(one, 'x')
    expect(await read(one)).toMatchObject({ counts: nothing })
    expect(await read(other)).toMatchObject({ counts: { deactivated: 1, missing: 1 } })
    expect(await active()).toEqual([])
  })

  test('belongs to the other one after one of them is retired', async () => {
    const tenant = admin()
    const { one, other, read, active } = await two(tenant, dataset)
    await read(other, 'x', 'z')
    await read(one, 'x', 'y')
    expect((await parts().caller.call(tenant, 'DELETE', `/api/v1/connectors/${one.id}`)).status).toBe(204)
    expect(await read(other, 'z')).toMatchObject({ counts: { deactivated: 1, missing: 1 } })
    expect(await active()).toEqual(['y', 'z'])
  })

  test('returns through the other one after a rollback of one of them', async () => {
    const tenant = admin()
    const { one, other, read, active } = await two(tenant, dataset)
    const made = await read(one, 'x')
    await read(other, 'x')
    await read(one, 'x')
    const undone = await undo(tenant, made)
    await work(undone)
    expect(await now(tenant, undone)).toMatchObject({ status: 'succeeded', counts: { deactivated: 1, applied: 1 } })
    expect(await active()).toEqual([])
    expect(await read(other, 'x')).toMatchObject({ counts: { reactivated: 1, applied: 1 } })
    expect(await active()).toEqual(['x'])
  })

  test('counts among the rows of both for the limits', async () => {
    const tenant = admin()
    const { one, other, read } = await two(tenant, dataset)
    const keys = Array.from({ length: 10 }, (_, n) => `k${n}`)
    await read(one, ...keys)
    await read(other, ...keys.slice(0, 5))
    const body = { safety: { max_deactivate_pct: 40, min_rows: 0, max_change_pct: 100 } }
    await parts().caller.call(tenant, 'PATCH', `/api/v1/connectors/${one.id}`, { body })
    expect(await read(one, ...keys.slice(0, 6))).toMatchObject({ status: 'succeeded', counts: { missing: 4 } })
    await read(other, ...keys.slice(0, 5))
    // Two of six rows, five of which the other connector delivers too.
    expect(await read(one, ...keys.slice(1, 5))).toMatchObject({ status: 'succeeded', counts: { missing: 5 } })
  })
})
