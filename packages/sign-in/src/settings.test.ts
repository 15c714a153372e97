import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { signInProviders } from './environment.ts'
import { parseSignIn } from './settings.ts'

const staff = { name: 'Staff', issuer: 'https://sso.bank.example/realms/staff' }
const partners = { name: 'Partners', issuer: 'https://partners.example', person_prefix: 'partners:' }

const parse = (...providers: readonly object[]) => parseSignIn(JSON.stringify({ providers }))

describe('the file of the providers', () => {
  test('may be JSON or YAML, and names only what differs from the defaults', () => {
    const yaml = `
providers:
  - name: Staff
    issuer: https://sso.bank.example/realms/staff
    read: id_token
    client_id: console
    tenant: { from: [/hd], map: { bank.example: harbourline } }
    roles: { from: [/groups], map: { /audit/leads: auditor } }
    people: { Ada@Bank.example: admin }
`
    const [provider] = parseSignIn(yaml)
    expect(provider).toMatchObject({
      issuer: staff.issuer,
      read: 'id_token',
      audience: ['console'],
      clockToleranceSeconds: 30,
      subject: ['/sub'],
      tenant: { from: ['/hd'], map: new Map([['bank.example', 'harbourline']]), otherwise: undefined },
      roles: { from: ['/groups'], map: new Map([['/audit/leads', 'auditor']]) },
      people: new Map([['ada@bank.example', 'admin']]),
    })
    expect(parse(staff)[0]).toMatchObject({
      audience: ['postern'],
      roles: { from: ['/postern_roles'], map: undefined },
    })
  })

  test.each<readonly [string, readonly object[], string]>([
    [
      'an unknown member',
      [{ ...staff, tenant: { form: ['/x'] } }],
      'providers[0].tenant.form: is not a member. Remove it or correct its name',
    ],
    [
      'a pointer that is none',
      [{ ...staff, roles: { from: ['groups'] } }],
      'providers[0].roles.from[0]: must be a JSON Pointer (RFC 6901) such as /resource_access/postern-console/roles',
    ],
    [
      'a fourth role',
      [{ ...staff, roles: { map: { '/audit/all': 'superuser' } } }],
      'providers[0].roles.map["/audit/all"]: must be viewer, auditor or admin',
    ],
    [
      'a tenant that can be none',
      [{ ...staff, tenant: { map: { 'bank.example': 'Harbourline Bank' } } }],
      'providers[0].tenant.map["bank.example"]: must be the id or the slug of a tenant, as in postern tenants list',
    ],
    [
      'two providers with one issuer',
      [staff, { ...partners, issuer: staff.issuer }],
      'providers[1].issuer: is the issuer of another provider. Write one provider with both mappings',
    ],
    ['two providers with one name', [staff, { ...partners, name: 'Staff' }], 'providers[1].name: is the name of'],
    [
      'two providers whose people could be confused',
      [staff, { ...partners, person_prefix: undefined }],
      'providers[1].person_prefix: must differ from that of the other providers',
    ],
    [
      'an issuer over plain HTTP',
      [{ ...staff, issuer: 'http://keycloak:8080' }],
      'providers[0].issuer: must be an https URL. For http in a closed network, set allow_http: true',
    ],
    [
      'a parameter of Postern',
      [{ ...staff, parameters: { state: 'x' } }],
      'providers[0].parameters.state: is not an allowed name',
    ],
    [
      'service accounts without their clients',
      [{ ...staff, machines: 'accept' }],
      'providers[0].machines: must be refuse, or the',
    ],
    ...['/postern/{tenant}', '/{role}/{tenant}/{role}', '/postern/{tenant}/{rolle}'].map(
      (form): [string, readonly object[], string] => [
        `grants of the form ${form}`,
        [{ ...staff, grants: { from: ['/groups'], form } }],
        'providers[0].grants.form: must hold {tenant} and {role} once each, such as',
      ],
    ),
    [
      'a directory by another attribute',
      [{ ...staff, directory: { match: '/sub', with: 'nickName' } }],
      'providers[0].directory.with: must be externalId, userName or emails.value',
    ],
    [
      'a directory by no pointer',
      [{ ...staff, directory: { match: 'sub', with: 'externalId' } }],
      'providers[0].directory.match: must be a JSON Pointer',
    ],
    [
      'another kind of token',
      [{ ...staff, read: 'refresh_token' }],
      'providers[0].read: must be access_token, id_token or userinfo',
    ],
    ['no provider', [], 'providers: must have'],
  ])('is refused with the path and the fix for %s', (_what, providers, message) => {
    expect(() => parse(...providers)).toThrow(message)
  })

  test('is refused with the line at which it is neither JSON nor YAML, without quoting it', () => {
    expect(() => parseSignIn('providers:\n  - name: [hidden')).toThrow(
      /^must be JSON or YAML: it cannot be read in line \d/,
    )
    expect(() => parseSignIn('providers:\n  - name: [hidden')).not.toThrow('hidden')
    expect(() => parseSignIn('a: &x []\nproviders: *x')).toThrow('must not use aliases of YAML')
    expect(() => parseSignIn('{"providers":[],"providers":[]}')).toThrow('must be JSON or YAML')
  })

  test('lists all mistakes at once', () => {
    expect(() => parse({ name: '', issuer: staff.issuer, read: 'x' })).toThrow(
      /providers\[0\]\.name[^]*providers\[0\]\.read/,
    )
  })

  test('may name an issuer over HTTP if that is allowed explicitly', () => {
    expect(parse({ ...staff, issuer: 'http://keycloak:8080', allow_http: true })).toHaveLength(1)
  })
})

describe('the file in the guide', () => {
  const folder = join(import.meta.dirname, '..', '..', '..', 'docs', 'guides')
  const guides = globSync('{single-sign-on,sign-in-*}.md', { cwd: folder })

  test.each(guides)('%s is valid', (name) => {
    const files = [...readFileSync(join(folder, name), 'utf8').matchAll(/^```yaml\n([^]*?)^```/gm)]
    expect(files.map(([, text = '']) => parseSignIn(text).length)).toEqual([1])
  })

  test('exists for each provider', () => expect(guides.length).toBeGreaterThan(6))
})

describe('the variables', () => {
  const usual = {
    POSTERN_OIDC_ISSUER: staff.issuer,
    POSTERN_OIDC_AUDIENCE: 'api',
    POSTERN_OIDC_TENANT_CLAIM: 'https://bank.example/tenant',
    POSTERN_OIDC_ROLES_CLAIM: 'groups',
  }

  test('are a provider whose claims are at the top', () => {
    expect(signInProviders(usual, { client_id: 'c' })).toMatchObject([
      {
        issuer: staff.issuer,
        clientId: 'c',
        audience: ['api'],
        tenant: { from: ['/https:~1~1bank.example~1tenant'] },
        roles: { from: ['/groups'], map: undefined },
      },
    ])
    const { POSTERN_OIDC_ISSUER: _issuer, ...others } = usual
    expect(signInProviders(others)).toEqual([])
  })

  test('are refused beside a file', () => {
    expect(() => signInProviders({ ...usual, POSTERN_SIGN_IN: parse(staff) })).toThrow('not both')
  })
})
