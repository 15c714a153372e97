/**
 * @promise Edge: People get the tenant and the roles that the operator has mapped, and nothing on doubt.
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Claims, readClaims } from './read-claims.ts'
import { explainRefusal } from './refusal.ts'
import { parseSignIn } from './settings.ts'

const id = '0197a3c0-7c00-7000-8000-000000000001'
const claims = { iss: 'https://sso.example', sub: 'ada', postern_tenant: id, postern_roles: ['postern-admin'] }

function read(given: Claims, settings: object = {}, others: readonly object[] = []) {
  const all = { providers: [{ name: 'Staff', issuer: 'https://sso.example', ...settings }, ...others] }
  const [provider] = parseSignIn(JSON.stringify(all))
  if (provider === undefined) throw new Error('no provider')
  return readClaims(provider, given)
}

const person = (given: object) => {
  const { tenant, roles, ...expected } = { tenant: undefined, roles: undefined, ...given }
  const grant = { ...(tenant === undefined ? {} : { tenant }), ...(roles === undefined ? {} : { roles }) }
  return { kind: 'person', person: { ...expected, grants: [grant] } }
}
const refused = (expected: object) => ({ kind: 'refused', refusal: expected })

/** Claims as the documentation of the providers describes them, read on 2026-11-29. */
describe('tokens in the form of', () => {
  test.each<readonly [string, object, Claims, object]>([
    [
      'Keycloak, with organizations and client roles',
      {
        tenant: { from: ['/organization'] },
        roles: { from: ['/resource_access/postern-console/roles'], map: { lead: 'auditor' } },
      },
      {
        sub: 'f:1:ada',
        typ: 'Bearer',
        azp: 'postern-console',
        preferred_username: 'ada',
        organization: { harbourline: {} },
        realm_access: { roles: ['admin'] },
        resource_access: { 'postern-console': { roles: ['lead'] } },
      },
      { subject: 'f:1:ada', name: 'ada', tenant: 'harbourline', roles: ['auditor'] },
    ],
    [
      'Keycloak, with an attribute and groups by their paths',
      { roles: { from: ['/groups'] } },
      { sub: 'ada', postern_tenant: 'harbourline', groups: ['/staff', '/postern/viewer'] },
      { tenant: 'harbourline', roles: ['viewer'] },
    ],
    [
      'Entra ID, version 2',
      {
        tenant: { from: ['/tid'], map: { '00000000-1111-4222-8333-444444444444': 'harbourline' } },
        subject: ['/oid'],
        roles: { from: ['/roles'], map: { 'Postern.Admin': 'admin' } },
      },
      {
        ver: '2.0',
        sub: 'pairwise',
        oid: 'object-1',
        tid: '00000000-1111-4222-8333-444444444444',
        azp: '11111111-2222-3333-4444-555555555555',
        name: 'Ada Lund',
        roles: ['Postern.Admin'],
      },
      { subject: 'object-1', name: 'Ada Lund', tenant: 'harbourline', roles: ['admin'] },
    ],
    [
      'Entra ID, version 1',
      { tenant: { from: ['/tid'], map: { '00000000-1111-4222-8333-444444444444': id } }, roles: { from: ['/roles'] } },
      {
        ver: '1.0',
        sub: 'pairwise',
        tid: '00000000-1111-4222-8333-444444444444',
        appid: '11111111-2222-3333-4444-555555555555',
        appidacr: '1',
        roles: ['postern-viewer'],
      },
      { tenant: id, roles: ['viewer'] },
    ],
    [
      'Okta, with its organization server',
      {
        read: 'id_token',
        tenant: { otherwise: 'harbourline' },
        roles: { from: ['/groups'], map: { Everyone: 'viewer', 'Audit Leads': 'auditor' } },
      },
      { sub: '00u1', name: 'Ada Lund', ver: 1, idp: '00o1', groups: ['Everyone', 'Audit Leads'] },
      { subject: '00u1', tenant: 'harbourline', roles: ['viewer', 'auditor'] },
    ],
    [
      'Google Workspace, which gives no groups',
      {
        read: 'id_token',
        tenant: { from: ['/hd'], map: { 'bank.example': 'harbourline' } },
        people: { 'ADA@bank.example': 'admin' },
      },
      { sub: '1104', azp: 'postern-console', hd: 'bank.example', email: 'ada@bank.example', email_verified: true },
      { subject: '1104', name: 'ada@bank.example', tenant: 'harbourline', roles: ['admin'] },
    ],
    [
      'Dex',
      {
        read: 'id_token',
        tenant: { otherwise: 'harbourline' },
        roles: { from: ['/groups'], map: { 'audit:leads': 'auditor' } },
      },
      { sub: 'CgNhZGESBGxkYXA', name: 'ada', groups: ['audit:leads'], email: 'ada@bank.example', email_verified: true },
      { tenant: 'harbourline', roles: ['auditor'] },
    ],
    [
      'Auth0, with namespaced claims',
      {
        tenant: { from: ['/org_name', '/https:~1~1postern.example~1tenant'] },
        roles: { from: ['/https:~1~1postern.example~1roles'] },
      },
      {
        sub: 'auth0|1',
        azp: 'client-1',
        'https://postern.example/tenant': 'harbourline',
        'https://postern.example/roles': ['postern-auditor'],
      },
      { subject: 'auth0|1', tenant: 'harbourline', roles: ['auditor'] },
    ],
    [
      'Cognito',
      {
        read: 'id_token',
        tenant: { from: ['/custom:tenant'] },
        roles: { from: ['/cognito:groups'], map: { leads: 'auditor' } },
      },
      { sub: 'u-1', token_use: 'id', 'cognito:username': 'ada', 'custom:tenant': id, 'cognito:groups': ['leads'] },
      { tenant: id, roles: ['auditor'] },
    ],
  ])('%s', (_what, settings, given, expected) => {
    expect(read(given, settings)).toMatchObject(person(expected))
  })
})

describe('the tenant', () => {
  test.each<readonly [string, Claims, object, string]>([
    ['in capitals', { postern_tenant: id.toUpperCase() }, {}, id],
    ['in a list of one', { postern_tenant: ['harbourline'] }, {}, 'harbourline'],
    ['by the first pointer that yields something', { a: [], b: 'korvex' }, { from: ['/a', '/b'] }, 'korvex'],
    ['by the map, before its form', { postern_tenant: 'korvex' }, { map: { korvex: 'harbourline' } }, 'harbourline'],
    [
      'from the groups that the map names, among others',
      { postern_tenant: ['korvex', 'leads', 'bank', 'group'] },
      { map: { bank: 'harbourline', group: 'harbourline' } },
      'harbourline',
    ],
    ['of everybody', { postern_tenant: '' }, { otherwise: 'korvex' }, 'korvex'],
  ])('is read %s', (_what, given, tenant, expected) => {
    expect(read({ sub: 'ada', ...given }, { tenant })).toMatchObject(person({ tenant: expected }))
  })

  test.each<readonly [string, unknown, object, object]>([
    ['absent', undefined, {}, { code: 'tenant_claim_absent', read: ['/postern_tenant'] }],
    [
      'a list of two',
      [id, id],
      {},
      { code: 'tenant_ambiguous', read: ['/postern_tenant'], found: `["${id}","${id}"]` },
    ],
    [
      'a list of two tenants of the map',
      ['a', 'b', 'c'],
      { map: { a: id, c: 'korvex' } },
      { code: 'tenant_ambiguous' },
    ],
    ['a list that the map does not name', ['a1', 'b1'], { map: { c: id } }, { code: 'tenant_ambiguous' }],
    ['an object of two', { a1: {}, b1: {} }, {}, { code: 'tenant_ambiguous' }],
    ['of no form', 'Harbourline Bank', {}, { code: 'tenant_unknown', found: '"Harbourline Bank"' }],
    ['a number', 7, {}, { code: 'tenant_unknown', found: '7' }],
    ['not in the map, in place of `otherwise`', '*', { otherwise: id }, { code: 'tenant_unknown' }],
    ['a member of every object', 'constructor!', { map: {} }, { code: 'tenant_unknown' }],
    ['long', `${'x'.repeat(1000)}!`, {}, { code: 'tenant_unknown', found: `"${'x'.repeat(159)}…` }],
  ])('refuses a person if it is %s', (_what, value, tenant, refusal) => {
    expect(read({ ...claims, postern_tenant: value }, { tenant })).toEqual(refused(expect.objectContaining(refusal)))
  })
})

describe('roles', () => {
  test.each<readonly [string, unknown, object, readonly string[]]>([
    ['a list', ['postern-viewer', '/postern/admin', 'other'], {}, ['viewer', 'admin']],
    ['one name with a blank, which is mapped', 'Audit Leads', { map: { 'Audit Leads': 'auditor' } }, ['auditor']],
    ['words', 'openid postern-auditor', {}, ['auditor']],
    ['a list in which not everything is a name', [7, null, ['postern-admin'], 'postern-viewer'], {}, ['viewer']],
  ])('are read from %s', (_what, value, settings, expected) => {
    expect(read({ ...claims, postern_roles: value }, { roles: settings })).toMatchObject(person({ roles: expected }))
  })

  test.each<readonly [string, unknown, object, object]>([
    ['absent', undefined, {}, { code: 'roles_claim_absent', read: ['/postern_roles'] }],
    ['plain words', ['admin'], {}, { code: 'no_mapped_role', found: '["admin"]', nearest: '"postern-admin"' }],
    ['in other case', ['Leads'], { map: { leads: 'auditor' } }, { code: 'no_mapped_role', nearest: '"leads"' }],
    ['with a leading slash', ['/leads'], { map: { leads: 'auditor' } }, { nearest: '"leads"' }],
    ['prefixed, where there is a map', ['postern-admin'], { map: { leads: 'auditor' } }, { code: 'no_mapped_role' }],
    ['names of every object', ['constructor', '__proto__'], {}, { code: 'no_mapped_role' }],
    ['an object', { 'postern-admin': true }, {}, { code: 'no_mapped_role' }],
  ])('are none, with the reason, if they are %s', (_what, value, settings, reason) => {
    const reading = read({ ...claims, postern_roles: value }, { roles: settings })
    expect(reading).toMatchObject(person({ roles: [], withoutRoles: reason }))
  })

  test.each([
    ['by the subject', { sub: '1104' }, ['admin']],
    ['by a verified address in any case', { email: 'Ada@Bank.example', email_verified: true }, ['viewer']],
    ['not by an address that is not verified', { email: 'ada@bank.example' }, []],
    ['not by an address that is verified only in words', { email: 'ada@bank.example', email_verified: 'true' }, []],
  ])('come from the table of people %s', (_what, given, expected) => {
    const people = { '1104': 'admin', 'ada@bank.example': 'viewer' }
    expect(read({ ...claims, postern_roles: undefined, ...given }, { people })).toMatchObject(
      person({ roles: expected }),
    )
  })
})

describe('a service account is refused in the form of', () => {
  test.each<readonly [string, Claims]>([
    ['RFC 9068', { sub: 'robot', client_id: 'robot' }],
    ['Keycloak', { azp: 'robot', preferred_username: 'service-account-robot' }],
    ['Entra ID', { idtyp: 'app', appid: 'robot' }],
    ['Auth0', { sub: 'robot@clients', azp: 'robot', gty: 'client-credentials' }],
    ['Okta', { sub: 'robot', cid: 'robot' }],
  ])('%s', (_what, given) => {
    expect(read({ ...claims, ...given })).toEqual(refused({ code: 'machine_refused', found: '"robot"' }))
  })
})

describe('a service account whose client the settings accept', () => {
  const machines = { clients: ['robot', 'portal'] }

  test('is a machine with the name of its client', () => {
    const keycloak = { sub: 'uuid', azp: 'robot', preferred_username: 'service-account-robot', name: 'Ada' }
    expect(read({ ...claims, ...keycloak }, { machines })).toMatchObject(
      person({ subject: 'uuid', name: 'robot', isMachine: true, roles: ['admin'] }),
    )
    expect(read({ ...claims, name: 'Ada' }, { machines })).toMatchObject(person({ name: 'Ada', isMachine: false }))
  })

  test.each<readonly [string, Claims]>([
    ['another client', { sub: 'other', client_id: 'other' }],
    ['a second client that is not accepted', { sub: 'robot', client_id: 'robot', azp: 'other' }],
    ['no client', { idtyp: 'app' }],
    ['a client in other case', { sub: 'Robot', client_id: 'Robot' }],
    ['a client that is no text', { idtyp: 'app', client_id: ['robot'] }],
  ])('and not with %s', (_what, given) => {
    expect(read({ ...claims, ...given }, { machines })).toMatchObject(
      refused({ code: 'machine_refused', wanted: '["robot","portal"]' }),
    )
  })
})

test('people of two providers never share an id', () => {
  const other = { name: 'Partners', issuer: 'https://partners.example', person_prefix: 'partners:' }
  expect(read({ ...claims, sub: 'partners:ada' }, {}, [other])).toMatchObject(refused({ code: 'subject_invalid' }))
  expect(read({ ...claims, sub: 'ada' }, {}, [other])).toMatchObject(person({ subject: 'ada' }))
  expect(read(claims, { person_prefix: 'staff:' }, [other])).toMatchObject(person({ subject: 'staff:ada' }))
})

test('any claims give a person in a mapped tenant or a refusal with a sentence', () => {
  const json = fc.jsonValue({ maxDepth: 3 })
  fc.assert(
    fc.property(json, json, json, (tenant, groups, name) => {
      const reading = read(
        { sub: 'ada', postern_tenant: tenant, postern_roles: groups, name },
        { tenant: { map: { a: 'harbourline' } } },
      )
      if (reading.kind === 'refused') expect(explainRefusal(reading.refusal)).toMatch(/^[A-Z].*\.$/s)
      else expect(reading.person.grants[0]?.tenant).toMatch(/^[a-z0-9-]+$/)
    }),
  )
})

describe('grants', () => {
  const grants = { from: ['/groups'] }
  const granted = (groups: unknown, settings: object = {}, more: Claims = {}) => {
    const reading = read({ sub: 'ada', groups, ...more }, { grants, ...settings })
    return reading.kind === 'person' ? reading.person.grants : reading.refusal.code
  }

  test('give a person roles in several tenants', () => {
    expect(
      granted(['/postern/harbourline/viewer', '/staff', '/postern/korvex/admin', '/postern/korvex/viewer']),
    ).toEqual([
      { tenant: 'harbourline', roles: ['viewer'] },
      { tenant: 'korvex', roles: ['viewer', 'admin'] },
    ])
    expect(granted({ [`/postern/${id.toUpperCase()}/auditor`]: {} })).toEqual([{ tenant: id, roles: ['auditor'] }])
  })

  test('have the form of the settings, and tenants by its map', () => {
    const settings = {
      grants: { ...grants, form: 'pst_{role}_in.{tenant}' },
      tenant: { map: { 'Bank AG': 'harbourline' } },
    }
    expect(granted(['pst_admin_in.Bank AG', 'pst_viewer_in.korvex', 'pst_viewer_inXkorvex'], settings)).toEqual([
      { tenant: 'harbourline', roles: ['admin'] },
      { tenant: 'korvex', roles: ['viewer'] },
    ])
  })

  test.each([
    ['another role', ['/postern/korvex/superuser']],
    ['a role in other case', ['/postern/korvex/Admin']],
    ['more before it', ['/evil/postern/korvex/admin']],
    ['more behind it', ['/postern/korvex/admin/x', '/postern/korvex/admin\n']],
    ['a tenant that can be none', ['/postern/Korvex Energy/admin', '/postern//admin', '/postern/a/b/admin']],
    ['no text', [7, null, ['/postern/korvex/admin']]],
  ])('with %s give nothing', (_what, groups) => {
    expect(granted(groups)).toBe('tenant_claim_absent')
  })

  test('come before the claims of one tenant, which count if there are none', () => {
    const more = { postern_tenant: 'harbourline', postern_roles: ['postern-admin'] }
    expect(granted(['/postern/korvex/viewer'], {}, more)).toEqual([{ tenant: 'korvex', roles: ['viewer'] }])
    expect(granted(['/staff'], {}, more)).toEqual([{ tenant: 'harbourline', roles: ['admin'] }])
  })

  test('are not read without the setting', () => {
    expect(read({ ...claims, groups: ['/postern/korvex/admin'] })).toMatchObject(
      person({ tenant: id, roles: ['admin'] }),
    )
  })

  test('of more than 100 tenants are refused', () => {
    const groups = Array.from({ length: 101 }, (_none, at) => `/postern/t${at}/viewer`)
    expect([granted(groups.slice(1)).length, granted(groups)]).toEqual([100, 'too_many_tenants'])
  })
})

describe('the name in a directory', () => {
  const byMail = { match: '/email', with: 'emails.value', required: true }
  const byId = { match: '/employee', with: 'externalId' }
  const verified = { email: 'ada@x.example', email_verified: true }

  test('is read from the claim, and does not exist without `directory`', () => {
    expect(read(claims)).toMatchObject({ person: { inDirectory: undefined } })
    expect(read({ ...claims, employee: 4711 }, { directory: byId })).toMatchObject({
      person: { inDirectory: { with: 'externalId', name: '4711', isRequired: false } },
    })
    expect(read({ ...claims, ...verified }, { directory: byMail })).toMatchObject({
      person: { inDirectory: { with: 'emails.value', name: 'ada@x.example', isRequired: true } },
    })
  })

  test.each<readonly [string, Claims, object]>([
    ['is absent', {}, byId],
    ['is empty', { employee: '' }, byId],
    ['is a list', { employee: ['4711'] }, byId],
    ['cannot be stored', { employee: 'a\0b' }, byId],
    ['is a number that lost digits', { employee: 2 ** 60 }, byId],
    ['is a broken number', { employee: 4711.5 }, byId],
    ['is an address that is not verified', { email: 'ada@x.example' }, byMail],
  ])('that %s is refused', (_what, more, directory) => {
    expect(read({ ...claims, ...more }, { directory })).toMatchObject(refused({ code: 'directory_claim_absent' }))
  })
})
