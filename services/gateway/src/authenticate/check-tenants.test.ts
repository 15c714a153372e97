import { parseSignIn } from '@postern/sign-in'
import { expect, test } from 'vitest'
import { foundTenant } from '../../test/authentication.ts'
import { createTenantCheck } from './check-tenants.ts'

const [provider] = parseSignIn(
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

test('each tenant of the sign-in file that does not exist is logged once, as soon as tenants can be looked up', async () => {
  if (provider === undefined) throw new Error('no provider')
  const logged: unknown[] = []
  let isAway = true
  let asked = 0
  const obtain = async (reference: string) => {
    asked += 1
    if (isAway) return { kind: 'unavailable' } as const
    return reference === 'bank' ? foundTenant() : ({ kind: 'unknown' } as const)
  }
  const check = createTenantCheck([provider], { obtain }, { error: (line: unknown) => void logged.push(line) })
  await check()
  expect([logged, asked]).toEqual([[], 3])
  isAway = false
  await check()
  await check()
  const common = { event: 'sign_in_tenant_unknown', provider: 'Staff' }
  expect(logged).toMatchObject([
    { ...common, member: 'tenant.map[energy.example]', tenant: 'energie' },
    { ...common, member: 'tenant.otherwise', tenant: 'nobody' },
  ])
  expect(asked).toBe(6)
})
