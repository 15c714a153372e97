import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findUndoable } from '../src/import/rollback-store.ts'
import { type Connector, type Run, importsOf, newConnector } from './import-support.ts'
import { type UniverseUnderTest, newTenant, row, startUniverse } from './service.ts'

let universe: UniverseUnderTest
let imports: ReturnType<typeof importsOf>
beforeAll(async () => {
  universe = await startUniverse()
  imports = importsOf(universe)
})
afterAll(async () => await universe.close())

const entities = (count: number, name = 'Entity') =>
  Array.from({ length: count }, (_none, n) => row(`E${n}`, { name: `${name} ${n}`, status: 'active' }))

/** Whether the run can be undone, by the first so many changes, and how many blocks of changes are read for it. */
async function look({ tenant }: Connector, { id }: Run, most?: number) {
  return await universe.asService.write(universe.assertionOf(tenant.tenantId), async (tx) => {
    const count = async (): Promise<number> => {
      const text = `select sum(pg_stat_get_xact_blocks_fetched(oid))::integer as read
        from pg_class where relname like 'import\\_row%'`
      const [counted] = await tx.query<{ read: number }>({ text, values: [] })
      return counted?.read ?? Infinity
    }
    const before = await count()
    const found = await findUndoable(tx, id, 'auditable_entities', most)
    return { ...found, read: (await count()) - before }
  })
}

/** So many later runs, each of which has changed `rows` other rows: as after a year of nights. */
async function laterRuns({ tenant, id }: Connector, runs: number, rows: number): Promise<void> {
  await universe.asSuperuser.system(async (tx) => {
    await tx.execute({
      text: `with later as (
          insert into universe.import (
            tenant_id, run_id, attempt, applied_sequence, connector_id, scope, diff_hash, applied_count, is_finished
          )
          select $1::uuid, uuidv7(), 1, 20000000, $2::text, 'auditable_entities', 'x', $4::integer, true
          from generate_series(1, $3::integer)
          returning run_id
        )
        insert into universe.import_row (tenant_id, run_id, seq, op, source_key, before, content)
        select $1::uuid, later.run_id, 10000000 + n, 'update', 'O' || n, '{}', '{"name": "Other"}'
        from later, generate_series(1, $4::integer) as n`,
      values: [tenant.tenantId, id, runs, rows],
    })
  })
}

describe('whether a run can be undone', () => {
  test('is read from what later runs have made of its rows, not from what hundreds of them have changed besides', async () => {
    const connector = newConnector(newTenant())
    const { run } = await imports.carryOut(connector, ...entities(500))
    // PostgreSQL keeps the plan of the sixth time, of when there were few.
    for (let time = 1; time <= 6; time += 1)
      expect(await look(connector, run)).toMatchObject({ changed: false, left: true })
    await laterRuns(connector, 200, 500)
    const { read, ...found } = await look(connector, run)
    expect(found).toEqual({ changed: false, left: true })
    expect(read).toBeLessThan(10_000)
    await imports.carryOut(connector, ...entities(500, 'Renamed'))
    expect(await look(connector, run)).toMatchObject({ changed: true })
  })

  test('is answered by its first changes', async () => {
    const connector = newConnector(newTenant())
    const { run } = await imports.carryOut(connector, ...entities(5))
    expect(await imports.undo(connector, run)).toMatchObject({ applied: 5 })
    expect(await look(connector, run)).toMatchObject({ changed: false, left: false })
    expect(await look(connector, run, 5)).toMatchObject({ changed: false, left: true })
    expect(await look(connector, run, 6)).toMatchObject({ changed: false, left: false })
  })
})
