import {
  entityNamesAnswerSchema,
  internalPaths,
  subtreeAnswerSchema,
  unknownReferencesAnswerSchema,
} from '@postern/contracts/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type Principal,
  type UniverseUnderTest,
  legal,
  newTenant,
  node,
  row,
  startUniverse,
  syncOf,
} from './service.ts'

let universe: UniverseUnderTest
beforeAll(async () => {
  universe = await startUniverse()
})
afterAll(async () => await universe.close())

async function filled(): Promise<Principal> {
  const tenant = newTenant()
  await universe.push(tenant, [row('bank'), row('retail', { parent_external_id: 'bank' }), row('leasing')])
  const nodes = [
    node('top'),
    node('below', 'top', { entities: ['retail'] }),
    node('gone', 'top', { status: 'inactive' }),
  ]
  await universe.pushTo(tenant, 'org-structures', legal(nodes))
  return tenant
}

const ask = async (tenant: Principal, path: string, body: object) =>
  await universe.findings.call(syncOf(tenant), 'POST', path, { body })

async function namesBelow(tenant: Principal, body: object): Promise<(string | null)[]> {
  const { entity_ids: ids } = subtreeAnswerSchema.parse((await ask(tenant, internalPaths.subtree, body)).json)
  const stored = Object.values(await universe.stored(tenant))
  return stored.flatMap(({ id, external_id }) => (ids?.includes(id) ? [external_id] : [])).toSorted()
}

describe('the entities of a subtree', () => {
  test('are returned only to the findings service', async () => {
    const tenant = await filled()
    for (const path of [internalPaths.subtree, internalPaths.entityNames]) {
      for (const caller of [universe.gateway, universe.sync, universe.stranger]) {
        expect((await caller.call(syncOf(tenant), 'POST', path, { body: { subtree_of: 'ext:bank' } })).status).toBe(401)
      }
    }
    expect((await ask(tenant, internalPaths.subtree, { subtree_of: 'ext:bank' })).status).toBe(200)
  })

  test('are those below an entity with it, or of a hierarchy, or of a node of it; none of what is not there', async () => {
    const tenant = await filled()
    expect(await namesBelow(tenant, { subtree_of: 'ext:bank' })).toEqual(['bank', 'retail'])
    expect(await namesBelow(tenant, { subtree_of: 'ref:AE-0003' })).toEqual(['leasing'])
    expect(await namesBelow(tenant, { hierarchy: 'legal' })).toEqual(['retail'])
    expect(await namesBelow(tenant, { hierarchy: 'legal', subtree_of: 'key:below' })).toEqual(['retail'])
    expect(await namesBelow(tenant, { hierarchy: 'legal', subtree_of: 'key:gone' })).toEqual([])
    expect(await namesBelow(tenant, { hierarchy: 'none' })).toEqual([])
    expect(await namesBelow(tenant, { subtree_of: 'ext:nobody' })).toEqual([])
  })

  test('of another tenant are as those that do not exist, and so are its names', async () => {
    const [tenant, other] = [await filled(), newTenant()]
    const ids = Object.values(await universe.stored(tenant)).map(({ id }) => id)
    const named = async (by: Principal) =>
      entityNamesAnswerSchema
        .parse((await ask(by, internalPaths.entityNames, { ids })).json)
        .entities.map(({ name }) => name)
    expect((await named(tenant)).toSorted()).toEqual(['Entity bank', 'Entity leasing', 'Entity retail'])
    expect(await named(other)).toEqual([])
    expect((await ask(other, internalPaths.subtree, { subtree_of: ids[0] })).json).toEqual({ entity_ids: [] })
  })
})

test('an id exists only for its tenant, and only for the findings service', async () => {
  const [tenant, other] = [await filled(), newTenant()]
  const ids = Object.values(await universe.stored(tenant)).map(({ id }) => id)
  const nobody = crypto.randomUUID()
  const body = { entity_ids: [...ids, nobody], test_procedure_ids: ids.slice(0, 1) }
  const unknownTo = async (by: Principal) =>
    unknownReferencesAnswerSchema.parse((await ask(by, internalPaths.unknownReferences, body)).json)
  expect(await unknownTo(tenant)).toEqual({ entity_ids: [nobody], test_procedure_ids: ids.slice(0, 1) })
  const { entity_ids: unknown } = await unknownTo(other)
  expect(unknown.toSorted()).toEqual([...ids, nobody].toSorted())
  // People are in the answer only if the request names some.
  const withPeople = await ask(tenant, internalPaths.unknownReferences, { ...body, person_ids: [nobody] })
  expect(withPeople.json).toEqual({ ...(await unknownTo(tenant)), person_ids: [nobody] })
  const stranger = await universe.sync.call(syncOf(tenant), 'POST', internalPaths.unknownReferences, { body })
  expect(stranger.status).toBe(401)
})
