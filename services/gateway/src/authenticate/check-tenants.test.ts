import { ConfigurationError } from '@postern/service-kit'
import { parseSignIn } from '@postern/sign-in'
import { expect, test } from 'vitest'
import { foundTenant } from '../../test/authentication.ts'
import { createTenantCheck } from './check-tenants.ts'

const providers = parseSignIn(
  JSON.stringify({
    providers: [
      {
        name: 'Staff',
        issuer: 'https://sso.example',
        tenant: { map: { 'bank.example': 'bank', 'energy.example': 'energie' }, otherwise: 'nobody' },
      },
    ],
  }),
)

/** A keys service that is away for some look-ups, and knows only the tenant `bank`. */
function setUp(unavailable: number, known: readonly string[] = ['bank'], waitMs?: number) {
  const logged: unknown[] = []
  let asked = 0
  const obtain = async (reference: string) => {
    asked += 1
    if (asked <= unavailable) return { kind: 'unavailable' } as const
    return known.includes(reference) ? foundTenant() : ({ kind: 'unknown' } as const)
  }
  const logger = { error: (line: unknown) => void logged.push(line) }
  const check = createTenantCheck(providers, { obtain }, logger, waitMs)
  return { check, logged, asked: () => asked }
}

const faults = [
  'POSTERN_SIGN_IN: providers[0].tenant.map["energy.example"]: there is no tenant energie. Create the tenant',
  'POSTERN_SIGN_IN: providers[0].tenant.otherwise: there is no tenant nobody. Create the tenant',
]

test('a tenant of the sign-in file that does not exist is refused at the start, with the path', async () => {
  const failure = await setUp(0)
    .check.assertTenants()
    .catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(ConfigurationError)
  for (const fault of faults) expect(failure).toHaveProperty('message', expect.stringContaining(fault))
  const control = setUp(0, ['bank', 'energie', 'nobody'])
  await expect(control.check.assertTenants()).resolves.toBeUndefined()
  expect(control.asked()).toBe(3)
})

test('the start waits a while for a keys service that is away', async () => {
  await expect(setUp(2).check.assertTenants()).rejects.toThrow(faults[0])
})

test('while the keys service is away the gateway starts, and each missing tenant is logged once', async () => {
  const { check, logged, asked } = setUp(2, ['bank'], 0)
  await expect(check.assertTenants()).resolves.toBeUndefined()
  await check.repeat()
  expect(logged).toEqual([])
  await check.repeat()
  await check.repeat()
  const common = { event: 'sign_in_tenant_unknown' }
  expect(logged).toMatchObject([
    { ...common, path: 'providers[0].tenant.map["energy.example"]', tenant: 'energie' },
    { ...common, path: 'providers[0].tenant.otherwise', tenant: 'nobody' },
  ])
  expect(asked()).toBe(5)
})
