import type { TenantRecord } from '@postern/contracts/internal'
import { describe, expect, test } from 'vitest'
import { tenant } from '../../test/authentication.ts'
import { chooseTenant } from './choose-tenant.ts'
import type { TenantFound } from './tenant-lookup.ts'

const bank: TenantRecord = { ...tenant, tenantId: '0197a3c0-7c00-7000-8000-000000000001', tenantName: 'Bank' }
const energy: TenantRecord = { ...tenant, tenantId: '0197a3c0-7c00-7000-8000-000000000002', tenantName: 'Energy' }
const other: TenantRecord = { ...tenant, tenantId: '0197a3c0-7c00-7000-8000-000000000003', tenantName: 'Other' }

/** Knows each tenant by id and slug. `away` cannot be looked up. */
function directory(away: readonly string[] = []) {
  const asked: string[] = []
  const records: Readonly<Record<string, TenantRecord>> = {
    bank,
    energy,
    other,
    ...Object.fromEntries([bank, energy, other].map((record) => [record.tenantId, record])),
  }
  const obtain = async (reference: string): Promise<TenantFound> => {
    asked.push(reference)
    const found = records[reference]
    if (away.includes(reference)) return { kind: 'unavailable' }
    return found === undefined ? { kind: 'unknown' } : { kind: 'found', tenant: found }
  }
  return { obtain, asked }
}

const grants = [
  { tenant: 'bank', roles: ['viewer' as const] },
  { tenant: 'energy', roles: ['admin' as const] },
]
const both = [
  { id: bank.tenantId, name: 'Bank', roles: ['viewer'] },
  { id: energy.tenantId, name: 'Energy', roles: ['admin'] },
]

describe('a person with several tenants', () => {
  test.each([
    ['slug', 'energy', energy],
    ['id', bank.tenantId, bank],
    ['id in capitals', bank.tenantId.toUpperCase(), bank],
  ])('works in the one that the request names by its %s', async (_by, named, chosen) => {
    expect(await chooseTenant(grants, named, directory())).toEqual({ kind: 'chosen', tenant: chosen, access: both })
  })

  test('has to name one', async () => {
    expect(await chooseTenant(grants, undefined, directory())).toEqual({
      kind: 'undecided',
      access: both,
      names: ['bank', 'energy'],
    })
  })

  test.each(['other', other.tenantId, 'nobody', 'Bank', '', 'bank, energy', ' bank', '__proto__', 'x'.repeat(5000)])(
    'gets nothing by naming %j, which is not granted',
    async (named) => {
      expect(await chooseTenant(grants, named, directory())).toEqual({ kind: 'not_granted', names: ['bank', 'energy'] })
    },
  )

  test('whose token names a tenant by id can name it by slug', async () => {
    const byId = [{ tenant: bank.tenantId, roles: ['auditor' as const] }, ...grants.slice(1)]
    expect(await chooseTenant(byId, 'bank', directory())).toMatchObject({ kind: 'chosen', tenant: bank })
  })

  test('has all roles of a tenant that the token names by id and by slug', async () => {
    const twice = [...grants, { tenant: bank.tenantId, roles: ['admin' as const] }]
    expect(await chooseTenant(twice, 'bank', directory())).toMatchObject({
      access: [{ id: bank.tenantId, roles: ['viewer', 'admin'] }, both[1]],
    })
  })

  test('causes no look-up of an id that the token does not grant', async () => {
    const { obtain, asked } = directory()
    await chooseTenant(grants, other.tenantId, { obtain })
    expect(asked).toEqual(['bank', 'energy'])
  })
})

describe('while a granted tenant cannot be looked up', () => {
  test.each([
    [undefined, 'unavailable'],
    ['energy', 'unavailable'],
    ['bank', 'chosen'],
  ])('a request that names %s is %s', async (named, kind) => {
    expect(await chooseTenant(grants, named, directory(['energy']))).toMatchObject({ kind })
  })
})

test('a granted tenant that does not exist is left out', async () => {
  const [first] = grants
  const gone = [{ tenant: 'gone', roles: ['admin' as const] }]
  expect(await chooseTenant([...gone, ...grants.slice(0, 1)], undefined, directory())).toEqual({
    kind: 'chosen',
    tenant: bank,
    access: [{ ...both[0], roles: first?.roles }],
  })
  expect(await chooseTenant(gone, undefined, directory())).toEqual({ kind: 'unknown' })
  expect(await chooseTenant(gone, undefined, directory(['gone']))).toEqual({ kind: 'unavailable' })
})

test('a person with one tenant can name it, and no other', async () => {
  const one = grants.slice(0, 1)
  expect(await chooseTenant(one, 'bank', directory())).toMatchObject({ kind: 'chosen', tenant: bank })
  expect(await chooseTenant(one, 'energy', directory())).toEqual({ kind: 'not_granted', names: ['bank'] })
})
