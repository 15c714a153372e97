import { entitySchema } from '@postern/contracts'
import { internalPaths } from '@postern/contracts/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { importsOf, newConnector, rowsOf } from './import-support.ts'
import { type Principal, type UniverseUnderTest, newTenant, path, row, startUniverse, syncOf } from './service.ts'

let universe: UniverseUnderTest
let imports: ReturnType<typeof importsOf>
beforeAll(async () => {
  universe = await startUniverse()
  imports = importsOf(universe)
})
afterAll(async () => await universe.close())

async function names(tenant: Principal): Promise<string[]> {
  return Object.values(await universe.stored(tenant))
    .map(({ name, status }) => `${name} ${status}`)
    .toSorted()
}

/** A row as a source has it: with all defaults. */
const entity = (key: string, given: object = {}) => row(key, { status: 'active', ...given })

describe('a run of a connector', () => {
  test('creates, updates, moves and keeps rows, and lists its changes', async () => {
    const connector = newConnector(newTenant())
    await imports.carryOut(connector, entity('A'), entity('B', { parent_external_id: 'A' }), entity('C'))
    const { plan, applied, run } = await imports.carryOut(
      connector,
      entity('A'),
      entity('B'),
      entity('C', { name: 'Renamed' }),
      entity('D'),
    )
    expect(plan).toMatchObject({ created: 1, updated: 1, moved: 1, deactivated: 0, known: 3, missing: 0, valid: 3 })
    expect(applied).toEqual({ applied: 3, done: true, refused: null })
    const changes = await imports.changes(connector, run)
    expect(changes.map(({ op, source_key: key, error }) => `${op} ${key} ${error}`)).toEqual([
      'move B null',
      'update C null',
      'create D null',
    ])
    expect(changes[1]).toMatchObject({ before: { name: 'Entity C' }, after: { name: 'Renamed' } })
    expect(changes.every(({ applied_at: at }) => at !== null)).toBe(true)
  })

  test('sends no row that is stored unchanged', async () => {
    const connector = newConnector(newTenant())
    await imports.carryOut(connector, entity('A'), entity('B'))
    const { plan, sent, applied } = await imports.carryOut(connector, entity('B'), entity('A'))
    expect([sent, applied.applied]).toEqual([0, 0])
    expect(plan).toMatchObject({ valid: 0, created: 0, updated: 0, missing: 0 })
  })

  test('compares a row again after somebody else has written it', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await imports.carryOut(connector, entity('A'), entity('B'))
    await universe.push(tenant, [row('A', { name: 'Pushed' })])
    expect(await imports.carryOut(connector, entity('A'), entity('B'))).toMatchObject({ sent: 1, plan: { updated: 1 } })
    expect(await names(tenant)).toEqual(['Entity A active', 'Entity B active'])
  })

  test('stages rows of a repeated request once', async () => {
    const connector = newConnector(newTenant())
    const begun = await imports.begin(connector)
    const rows = rowsOf(entity('A'), entity('B'))
    const first = await imports.call(connector, internalPaths.importRows, { ...imports.held(begun.run), rows })
    expect(first.status).toBe(200)
    expect((await imports.plan(connector, rows, begun)).plan).toMatchObject({ created: 2, invalid: 0 })
  })

  test.each([
    [
      'is no resource of the dataset',
      JSON.stringify({ external_id: 'B', name: 'B', type: 'planet', status: 'active' }),
    ],
    ['is not JSON', '{"external_id":}'],
    ['is JSON on several lines', '{\n}'],
  ])('rejects a batch with a row that %s', async (_what, content) => {
    const connector = newConnector(newTenant())
    const begun = await imports.begin(connector)
    const [good] = rowsOf(entity('A'))
    const rows = [good, { row: 3, key: 'B', content }]
    const answer = await imports.call(connector, internalPaths.importRows, { ...imports.held(begun.run), rows })
    expect(answer).toMatchObject({ status: 422, json: { code: 'invalid_content' } })
    expect((await imports.plan(connector, rowsOf(entity('A')), begun)).plan).toMatchObject({ created: 1, valid: 1 })
  })

  test('applies parents before their children, whatever the order of the source', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    const { applied, run } = await imports.carryOut(
      connector,
      entity('C', { parent_external_id: 'B' }),
      entity('B', { parent_external_id: 'A' }),
      entity('A'),
    )
    expect(applied.applied).toBe(3)
    expect((await imports.changes(connector, run)).map(({ source_key: key }) => key)).toEqual(['A', 'B', 'C'])
  })

  test('rejects rows that cannot be stored together, and applies the others', async () => {
    const connector = newConnector(newTenant())
    const { plan, run, applied } = await imports.carryOut(
      connector,
      entity('A'),
      entity('A', { name: 'Again' }),
      entity('B', { parent_external_id: 'nowhere' }),
      entity('C', { parent_external_id: 'D' }),
      entity('D', { parent_external_id: 'C' }),
      entity('E', { parent_external_id: 'B' }),
    )
    expect([plan.valid, plan.invalid, applied.applied]).toEqual([1, 5, 1])
    const errors = await imports.errors(connector, run, false)
    expect(errors.map(({ row: at, key, code, message }) => [at, key, code, message.slice(0, 14)])).toEqual([
      [3, 'A', 'duplicate', 'is already the'],
      [4, 'B', 'unknown_parent', 'names no valid'],
      [5, 'C', 'cycle', 'would put this'],
      [6, 'D', 'cycle', 'would put this'],
      [7, 'E', 'unknown_parent', 'names no valid'],
    ])
    expect(errors[0]?.message).toBe('is already the key of row 2')
  })

  test('reads its source again if a row repeats the key of an unchanged one', async () => {
    const connector = newConnector(newTenant())
    await imports.carryOut(connector, entity('A'), entity('B'))
    const found = await imports.carryOut(connector, entity('A', { name: 'First' }), entity('A'), entity('B'))
    expect(found).toMatchObject({ isReadAgain: true, plan: { updated: 1, invalid: 1, valid: 2 } })
  })

  test('reads its source again if an unchanged row is written while the source is read', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await imports.carryOut(connector, entity('A'), entity('B'))
    const begun = await imports.begin(connector)
    await universe.push(tenant, [row('A', { name: 'Pushed' })])
    const found = await imports.plan(connector, rowsOf(entity('A'), entity('B')), begun)
    expect(found).toMatchObject({ isReadAgain: true, plan: { updated: 1, missing: 0 } })
  })

  test('applies only the changes whose hash is named', async () => {
    const connector = newConnector(newTenant())
    const { run, plan } = await imports.plan(connector, rowsOf(entity('A')))
    const body = { ...imports.held(run), diff_hash: 'another' }
    expect(await imports.call(connector, internalPaths.applyImport, body)).toMatchObject({ status: 409 })
    expect((await imports.apply(connector, run, plan.diff_hash)).applied).toBe(1)
  })

  test('rejects what a change cannot do now, row by row', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    const { run, plan } = await imports.plan(connector, rowsOf(entity('A'), entity('B', { parent_external_id: 'A' })))
    // A draft of this name was made since.
    await universe.push(tenant, [row('A', { status: 'archived' })])
    const other = newConnector(tenant)
    await imports.carryOut(other, entity('X', { status: 'draft' }))
    const archived = await imports.plan(other, rowsOf(entity('X', { status: 'archived' })))
    expect(await imports.apply(other, archived.run, archived.plan.diff_hash)).toMatchObject({ applied: 0, done: true })
    expect(await imports.errors(other, archived.run, true)).toMatchObject([
      { row: 2, key: 'X', field: 'status', code: 'invalid_transition', excerpt: 'archived' },
    ])
    expect(await imports.changes(other, archived.run)).toMatchObject([{ applied_at: null, error: expect.any(String) }])
    expect((await imports.apply(connector, run, plan.diff_hash)).applied).toBe(2)
  })

  test('of an earlier attempt changes nothing', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    const { run, plan } = await imports.plan(connector, rowsOf(entity('A')))
    const stop = await imports.call(connector, internalPaths.stopImport, imports.held(run))
    expect(stop).toMatchObject({ status: 200, json: { applied: 0 } })
    const body = { ...imports.held(run), diff_hash: plan.diff_hash }
    for (const [route, more] of [
      [internalPaths.applyImport, body],
      [internalPaths.importRows, { ...imports.held(run), rows: [] }],
    ] as const) {
      expect(await imports.call(connector, route, more)).toMatchObject({ status: 409 })
    }
    expect(await names(tenant)).toEqual([])
    const next = await imports.call(connector, internalPaths.applyImport, { ...body, attempt: 2 })
    expect(next).toMatchObject({ status: 200, json: { applied: 1 } })
  })

  test('is for the sync service only, and of one tenant', async () => {
    const [mine, theirs] = [newConnector(newTenant()), newTenant(['admin:sync', 'read:universe'])]
    const { run, plan } = await imports.plan(mine, rowsOf(entity('A')))
    const options = { body: { ...imports.held(run), diff_hash: plan.diff_hash } }
    for (const caller of [universe.gateway, universe.stranger, universe.findings, universe.evidence]) {
      expect((await caller.call(syncOf(theirs), 'POST', internalPaths.applyImport, options)).status).toBe(401)
    }
    expect((await universe.sync.call(theirs, 'POST', internalPaths.applyImport, options)).status).toBe(401)
    expect((await universe.sync.call(syncOf(theirs), 'POST', internalPaths.applyImport, options)).status).toBe(409)
    expect(await names(theirs)).toEqual([])
    expect((await imports.apply(mine, run, plan.diff_hash)).applied).toBe(1)
  })
})

describe('rows that a source lacks', () => {
  test('are flagged, or become inactive, and come back', async () => {
    const tenant = newTenant()
    for (const policy of ['flag', 'deactivate'] as const) {
      const connector = newConnector(tenant, { policy })
      const [a, b] = [entity(`${policy} A`), entity(`${policy} B`)]
      await imports.carryOut(connector, a, b)
      const { plan } = await imports.carryOut(connector, a)
      const changed = policy === 'deactivate' ? 1 : 0
      expect(plan).toMatchObject({ missing: 1, lately_missing: 1, deactivated: changed, gone: changed })
      expect(plan.flagged).toEqual(policy === 'flag' ? ['flag B'] : [])
      expect((await imports.carryOut(connector, a)).plan).toMatchObject({ missing: 1, lately_missing: 0, gone: 0 })
      const { plan: back } = await imports.carryOut(connector, a, b)
      expect(back).toMatchObject({ missing: 0, reactivated: changed })
    }
    expect(await names(tenant)).toHaveLength(4)
  })

  test('are not decided while a row has no readable key', async () => {
    const connector = newConnector(newTenant(), { policy: 'deactivate' })
    await imports.carryOut(connector, entity('A'), entity('B'))
    const { run, hashes } = await imports.begin(connector)
    const [kept] = rowsOf(entity('A'))
    const gone = [...hashes].filter((hash) => hash !== kept?.hash).join('')
    const rows = { ...imports.held(run), rows: [{ row: 3 }], gone }
    await imports.call(connector, internalPaths.importRows, rows)
    const body = { ...imports.held(run), after: 0, hashes: 2, missing_policy: 'deactivate' }
    expect(await imports.call(connector, internalPaths.planImport, body)).toMatchObject({
      json: { keyless: 1, missing: 1, deactivated: 0, invalid: 1 },
    })
  })

  test('stay while another connector brings them', async () => {
    const tenant = newTenant()
    const [one, other] = [
      newConnector(tenant, { policy: 'deactivate' }),
      newConnector(tenant, { policy: 'deactivate' }),
    ]
    await imports.carryOut(one, entity('A'), entity('B'))
    expect((await imports.carryOut(other, entity('A'))).plan).toMatchObject({ created: 0, valid: 1 })
    expect((await imports.carryOut(one, entity('B'))).plan).toMatchObject({ missing: 0, deactivated: 0 })
    expect((await imports.carryOut(other)).plan).toMatchObject({ missing: 1, deactivated: 1 })
  })
})

describe('a rollback', () => {
  test('takes back what a run has changed, the last change first', async () => {
    const tenant = newTenant()
    const connector = newConnector(tenant)
    await imports.carryOut(connector, entity('A'), entity('B', { parent_external_id: 'A' }))
    const { run } = await imports.carryOut(
      connector,
      entity('A', { parent_external_id: 'B' }),
      entity('B'),
      entity('C'),
    )
    const undone = await imports.undo(connector, run)
    expect(undone).toMatchObject({ applied: 3, moved: 2, deactivated: 1, stay: 0 })
    expect(await names(tenant)).toEqual(['Entity A active', 'Entity B active', 'Entity C archived'])
    // What it has taken back is no longer brought.
    expect((await imports.carryOut(connector, entity('A'), entity('B'))).plan).toMatchObject({ lately_missing: 0 })
  })
})

test('the connector that brings an entity is its source', async () => {
  const tenant = newTenant()
  const connector = newConnector(tenant)
  await universe.push(tenant, [row('P')])
  await imports.carryOut(connector, entity('A'), entity('P'))
  const source = async (key: string) =>
    entitySchema.parse((await universe.gateway.call(tenant, 'GET', `${path}/ext:${key}`)).json).source
  expect(await source('A')).toMatchObject({ connector_id: connector.id, missing_since: null })
  expect(await source('P')).toMatchObject({ connector_id: connector.id, missing_since: null })
  await imports.carryOut(connector, entity('P'))
  expect(await source('A')).toMatchObject({ connector_id: connector.id, missing_since: expect.any(String) })
})

test.each([
  ['people', { external_id: 'P', name: 'P', active: true }, { external_id: 'P', name: 'Q', active: true }],
  [
    'test_procedures',
    { external_id: 'T', title: 'T', status: 'not_started' },
    { external_id: 'T', title: 'U', status: 'not_started' },
  ],
  ['org_structure', { node_key: 'N', name: 'N', status: 'active' }, { node_key: 'N', name: 'M', status: 'active' }],
] as const)('%s are imported too', async (dataset, first, second) => {
  const hierarchy = dataset === 'org_structure' ? { hierarchy: 'legal' } : {}
  const connector = newConnector(newTenant(), { dataset, ...hierarchy })
  expect(await imports.carryOut(connector, first)).toMatchObject({ plan: { created: 1 }, applied: { applied: 1 } })
  expect(await imports.carryOut(connector, first)).toMatchObject({ sent: 0, plan: { valid: 0 } })
  const { run, ...changed } = await imports.carryOut(connector, second)
  expect(changed).toMatchObject({ plan: { updated: 1 }, applied: { applied: 1 } })
  expect(await imports.undo(connector, run)).toMatchObject({ applied: 1, updated: 1 })
})
