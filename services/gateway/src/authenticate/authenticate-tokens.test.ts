import { describe, expect, test } from 'vitest'
import {
  acceptedPerson,
  address,
  foundTenant,
  invalidToken,
  setUp,
  tenant,
  unavailable,
  valid,
  withToken,
} from '../../test/authentication.ts'

const forged = { code: 'signature_invalid' } as const
const ended = { code: 'token_expired', read: ['/exp'], found: 'expired 70 s ago' } as const
const tenantless = { code: 'tenant_claim_absent', read: ['/postern_tenant'] } as const
const unverified = invalidToken('The access token does not verify, or has expired.')
const namesNoTenant = invalidToken('The access token names no tenant.')
const failedToken = `token from ${address}`

describe('an access token', () => {
  test('is not accepted without a configured issuer', async () => {
    const { ask, said, failed, unreadable } = setUp()
    await ask(withToken)
    expect(said).toEqual([invalidToken('Access tokens are not accepted here. Send Authorization: ApiKey.')])
    expect([failed, unreadable]).toEqual([[], [address]])
  })

  test.each([
    ['is forged', { kind: 'invalid', refusal: forged, isForged: true }, unverified, [failedToken]],
    ['has ended', { kind: 'invalid', refusal: ended, isForged: false }, unverified, []],
    ['names no tenant', { kind: 'invalid', refusal: tenantless, isForged: false }, namesNoTenant, []],
    ['cannot be checked now', { kind: 'unavailable' }, unavailable, []],
  ] as const)('that %s is rejected, and counts as a failure if it is forged', async (_what, check, refusal, noted) => {
    const { ask, said, failed, asked, crashes } = setUp({ check })
    await ask(withToken)
    expect(said).toEqual([refusal])
    expect([failed, asked, crashes]).toEqual([noted, ['some.token'], []])
  })

  test('that is refused leaves its cause in the log, and in the answer only if the operator wants that', async () => {
    const check = { kind: 'invalid', refusal: ended, isForged: false } as const
    const silent = setUp({ check })
    await silent.ask(withToken)
    expect(silent.logged).toEqual([['token_refused', ended]])
    expect(JSON.stringify(silent.said)).not.toContain('70 s')
    const open = setUp({ check, explainsTokens: true })
    await open.ask(withToken)
    expect(JSON.stringify(open.said)).toContain('The token has expired (read from /exp): found expired 70 s ago.')
  })

  test('without roles is logged once, when it is verified', async () => {
    const withoutRoles = { code: 'no_mapped_role', found: '["admin"]' } as const
    const check = {
      kind: 'valid',
      token: { ...valid.token, grants: [{ tenant: tenant.tenantId, roles: [] }], withoutRoles },
    } as const
    const { ask, logged } = setUp({ check, tenants: [foundTenant()] })
    await ask(withToken)
    expect(logged).toEqual([['token_without_roles', withoutRoles]])
  })

  test('whose check fails unexpectedly is neither accepted nor rejected', async () => {
    const error = new Error('unthought of')
    const { ask, said } = setUp({ check: error })
    await ask(withToken)
    expect(said).toEqual([error])
  })

  test('that is forged gets 429 if the address has sent too many of them', async () => {
    const check = { kind: 'invalid', refusal: forged, isForged: true } as const
    const { ask, said } = setUp({ check, wait: { token: 9 } })
    await ask(withToken)
    expect(said).toEqual([
      ['too_many_requests', { detail: 'Too many failed authentications from this address.', retryAfterSeconds: 9 }],
    ])
  })

  test.each([
    ['for one whose keys have failed', { wait: { key: 9 } }],
    ['from an address with too many forged ones', { wait: { token: 9 } }],
    ['that was verified a moment ago', { wait: { token: 9 }, isTokenKnown: true }],
  ])('authenticates a person even %s', async (_what, given) => {
    const { ask, said } = setUp({ check: valid, tenants: [foundTenant()], ...given })
    await ask(withToken)
    expect(said).toEqual([acceptedPerson])
  })

  test('authenticates a person in the tenant that it names, once', async () => {
    const { ask, said, asked } = setUp({ check: valid, tenants: [foundTenant()] })
    await ask(withToken)
    expect(said).toEqual([acceptedPerson])
    expect(asked).toEqual(['some.token', tenant.tenantId])
  })

  test.each([
    [
      'does not exist',
      { kind: 'unknown' as const },
      invalidToken('The access token names a tenant that does not exist.'),
      [failedToken],
    ],
    ['cannot be looked up now', { kind: 'unavailable' as const }, unavailable, []],
    [
      'is suspended',
      foundTenant({ tenantStatus: 'suspended' }),
      ['tenant_suspended', { detail: 'The platform has suspended the tenant.', headers: [] }],
      [],
    ],
  ])(
    'of a tenant that %s is rejected, and counts as a failure if the tenant does not exist',
    async (_what, answer, refusal, noted) => {
      const { ask, said, failed, asked, logged } = setUp({ check: valid, tenants: [answer] })
      const { principal } = await ask(withToken)
      const cause = { code: 'tenant_unknown', read: ['/postern_tenant'], found: `"${tenant.tenantId}"` }
      expect(logged).toEqual(answer.kind === 'unknown' ? [['token_refused', cause]] : [])
      expect(said).toEqual([refusal])
      expect([failed, asked]).toEqual([noted, ['some.token', tenant.tenantId]])
      expect(principal?.id).toBe(answer.kind === 'found' ? 'ada' : undefined)
    },
  )
})

const foundPerson = (status: 'active' | 'inactive' | 'unknown') =>
  ({ kind: 'found', person: { hash: 'a'.repeat(64), version: 1, status, readAt: 0 } }) as const

describe('a person of a directory', () => {
  const inDirectory = { match: '/sub', with: 'externalId', isRequired: false, name: 'ada' } as const
  const check = { kind: 'valid', token: { ...valid.token, inDirectory } } as const
  const refused = [
    'person_inactive',
    {
      detail: 'The directory of the organization has deactivated or deleted this person.',
      headers: ['www-authenticate', 'Bearer realm="postern", error="invalid_token"'],
    },
  ]

  test.each([
    ['who is inactive is rejected', { people: [foundPerson('inactive')] }, refused],
    ['who cannot be looked up is neither accepted nor rejected', { people: [{ kind: 'unavailable' }] }, unavailable],
    [
      'who changes during the look-up is neither accepted nor rejected',
      { people: [foundPerson('active')], isPersonOutdated: true },
      unavailable,
    ],
    [
      'whose tenant is suspended during the look-up is rejected',
      { people: [foundPerson('active')], tenants: [foundTenant(), foundTenant({ tenantStatus: 'suspended' })] },
      ['tenant_suspended', { detail: 'The platform has suspended the tenant.', headers: [] }],
    ],
    ['who is active is accepted', { people: [foundPerson('active')] }, acceptedPerson],
    ['who is in no directory is accepted', { people: [foundPerson('unknown')] }, acceptedPerson],
  ] as const)('%s', async (_what, given, outcome) => {
    const world = setUp({ check, tenants: [foundTenant()], ...given })
    const { tenant: used } = await world.ask(withToken)
    expect(world.said).toEqual([outcome])
    expect(used === undefined).toBe(outcome !== acceptedPerson)
    // The keys service marks the member as having left.
    expect(world.used).toEqual(outcome === refused ? [[valid.token.subject, 'a'.repeat(64)]] : [])
  })

  test('who is in no directory is rejected if the directory is required, with the cause in the log', async () => {
    const token = { ...valid.token, inDirectory: { ...inDirectory, isRequired: true } }
    const world = setUp({ check: { kind: 'valid', token }, tenants: [foundTenant()], people: [foundPerson('unknown')] })
    await world.ask(withToken)
    expect(world.said).toMatchObject([
      ['person_unknown', { detail: expect.stringContaining('does not have this person') }],
    ])
    expect(world.logged).toEqual([['token_refused', { code: 'person_unknown', read: ['/sub'], found: '"ada"' }]])
  })
})
