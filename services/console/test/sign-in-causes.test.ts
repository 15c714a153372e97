/**
 * @promise Browser: Each refused sign-in leaves its cause in the log, and a code and a reference on the page.
 */

import { type TestBrowser, createTestBrowser } from '@postern/local-stack/testing'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type HostileProvider, type Misdeed, client, startHostileProvider } from './hostile-provider.ts'
import { type ConsoleSystem, readSession, startConsoleSystem, tenants } from './support.ts'

let staff: HostileProvider
let partners: HostileProvider
let system: ConsoleSystem
let silent: ConsoleSystem

beforeAll(async () => {
  ;[staff, partners] = await Promise.all([
    startHostileProvider(tenants.harbourline),
    startHostileProvider(tenants.korvex),
  ])
  const common = { client_id: client.id, parameters: { prompt: 'select_account' } }
  const providers = [
    { ...common, name: 'Staff', issuer: staff.issuer },
    {
      ...common,
      name: '<Partners>',
      issuer: partners.issuer,
      person_prefix: 'partners:',
      read: 'id_token',
      directory: { match: '/name', with: 'userName', required: true },
    },
  ]
  const none = { POSTERN_OIDC_ISSUER: '', POSTERN_OIDC_CLIENT_SECRET: '' }
  const file = JSON.stringify({ providers })
  ;[system, silent] = await Promise.all([
    startConsoleSystem({ ...none, POSTERN_SIGN_IN: file, POSTERN_SIGN_IN_DETAILS: 'on' }),
    startConsoleSystem({ ...none, POSTERN_SIGN_IN: file }),
  ])
})
afterAll(async () => {
  await Promise.all([system.stop(), silent.stop(), staff.stop(), partners.stop()])
})
beforeEach(() => {
  staff.misdeed = {}
  system.gateway.whoami = undefined
})

interface Parameters {
  readonly at?: number
  readonly answer?: string
}

async function signIn(on: ConsoleSystem, browser: TestBrowser, misdeed: Misdeed, { at = 0, answer }: Parameters = {}) {
  const provider = at === 0 ? staff : partners
  provider.misdeed = misdeed
  const login = `${on.url}/auth/login?provider=${at}`
  const { url } = await browser.visit(login, { until: (each) => each.startsWith(provider.issuer) })
  const parameters = new URL(url).searchParams
  provider.nonce = parameters.get('nonce') ?? ''
  expect(parameters.get('prompt')).toBe('select_account')
  return await browser.send(`${on.url}/auth/callback?${answer ?? 'code=c'}&state=${parameters.get('state')}`)
}

function lastRefusal(of: ConsoleSystem): unknown {
  return of.logs
    .map((line): unknown => JSON.parse(line))
    .findLast((line) => JSON.stringify(line).includes('sign_in_refused'))
}

const person = { name: 'Ada', postern_tenant: tenants.harbourline, postern_roles: ['postern-admin'] }
const refused = { status: 401, body: { code: 'invalid_token' } }
const roleless = {
  status: 200,
  body: {
    kind: 'user',
    id: 'person-1',
    label: 'Ada',
    tenant: { id: tenants.harbourline, name: 'Harbourline' },
    tenants: [{ id: tenants.harbourline, name: 'Harbourline', roles: [] }],
    granted: [],
    scopes: [],
    roles: [],
    masked: null,
    expires_at: null,
  },
}

describe('the cause of a refused sign-in is logged and shown:', () => {
  test.each<readonly [string, Misdeed, Parameters, object]>([
    [
      'the provider’s own error',
      {},
      { answer: 'error=access_denied&error_description=User%20is%20not%20assigned' },
      { reason: 'cancelled', code: 'provider_error', found: '"access_denied: User is not assigned"' },
    ],
    [
      'another client secret',
      { refusal: { status: 401, error: 'invalid_client' } },
      {},
      { reason: 'not_valid', code: 'client_rejected', found: '"invalid_client"' },
    ],
    [
      'another redirect address',
      { refusal: { status: 400, error: 'invalid_grant' } },
      {},
      { code: 'code_rejected', wanted: expect.stringMatching(/^redirect address http.*\/auth\/callback$/) },
    ],
    [
      'an ID token of another issuer',
      { claims: { iss: 'https://elsewhere.example' } },
      {},
      { code: 'id_token_invalid', read: ['/iss'], found: '"https://elsewhere.example"' },
    ],
    [
      'an ID token for another client',
      { claims: { aud: 'something-else' } },
      {},
      { code: 'id_token_invalid', read: ['/aud'], found: '"something-else"', wanted: `"${client.id}"` },
    ],
    [
      'an ID token with a forged signature',
      { foreignKey: true },
      {},
      { code: 'signature_invalid', found: 'kid "own"' },
    ],
  ])('%s', async (_what, misdeed, parameters, line) => {
    const answer = await signIn(system, createTestBrowser(), misdeed, parameters)
    const logged = lastRefusal(system)
    expect(logged).toMatchObject({ provider: 'Staff', ...line })
    expect(logged).toMatchObject({ request_id: expect.any(String), advice: expect.any(String) })
    const { code, request_id: reference } = Object(logged)
    expect(answer.text).toContain(`<code>${code}</code>, reference <code>${reference}</code>`)
  })

  test.each<readonly [string, object, typeof refused | typeof roleless, object]>([
    ['no tenant', { postern_tenant: undefined }, refused, { code: 'tenant_claim_absent', read: ['/postern_tenant'] }],
    ['two tenants', { postern_tenant: ['a1', 'b1'] }, refused, { code: 'tenant_ambiguous', found: '["a1","b1"]' }],
    [
      'a tenant that does not exist',
      { postern_tenant: 'nowhere' },
      refused,
      { code: 'tenant_unknown', read: ['/postern_tenant'], found: '"nowhere"' },
    ],
    [
      'a person whom the directory does not have',
      {},
      { status: 401, body: { code: 'person_unknown' } },
      { reason: 'person_unknown', code: 'person_unknown', read: ['/name'], found: '"Ada"' },
    ],
    [
      'a person whom the directory deactivated',
      {},
      { status: 401, body: { code: 'person_inactive' } },
      { reason: 'person_inactive', code: 'person_inactive', read: ['/name'], found: '"Ada"' },
    ],
    ['no roles', { postern_roles: undefined }, roleless, { code: 'roles_claim_absent', read: ['/postern_roles'] }],
    [
      'roles in other case',
      { postern_roles: ['Postern-Admin'] },
      roleless,
      { code: 'no_mapped_role', found: '["Postern-Admin"]', nearest: '"postern-admin"' },
    ],
  ])('a token with %s', async (_what, changes, whoami, line) => {
    system.gateway.whoami = whoami
    const claims = { ...person, ...changes }
    const answer = await signIn(system, createTestBrowser(), { claims }, { at: 1 })
    const logged = lastRefusal(system)
    expect(logged).toMatchObject({ provider: '<Partners>', ...line })
    const { code, request_id: reference } = Object(logged)
    expect(answer.text).toContain(`<code>${code}</code>, reference <code>${reference}</code>`)
    // The gateway logs the same reference.
    expect(system.gateway.requests.at(-1)?.headers['x-request-id']).toBe(reference)
  })

  test('in plain words only if the operator wants that', async () => {
    const misdeed = { claims: { aud: '<b>' } }
    const open = await signIn(system, createTestBrowser(), misdeed)
    expect(open.text).toContain('The ID token is not for this sign-in (read from /aud): found')
    expect(open.text).not.toContain('<b>')
    const closed = await signIn(silent, createTestBrowser(), misdeed)
    expect([closed.status, closed.text.includes('read from')]).toEqual([403, false])
    expect(closed.text).toContain('<code>id_token_invalid</code>')
  })

  test('without tokens and codes', async () => {
    await signIn(system, createTestBrowser(), { foreignKey: true })
    expect(system.logs.join('')).not.toMatch(/eyJ[\w-]+\./)
  })
})

describe('several providers', () => {
  test('are offered by name, and the page asked for is kept', async () => {
    const page = await createTestBrowser().send(`${system.url}/auth/login?return_to=%2Fkeys`)
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('Where do you sign in?')])
    expect(page.text).toContain('<a class="button" href="login?provider=0&amp;return_to=%2Fkeys">Staff</a>')
    expect(page.text).toContain('>&#60;Partners&#62;</a>')
  })

  test.each(['2', '-1', '0.5', 'x', '__proto__'])('are offered again for %j, which is none', async (at) => {
    const page = await createTestBrowser().send(`${system.url}/auth/login?provider=${at}`)
    expect([page.status, page.headers['set-cookie']]).toEqual([200, undefined])
  })

  test('sign in with the token that each of them names', async () => {
    for (const [at, audience] of [
      [0, 'postern'],
      [1, client.id],
    ] as const) {
      const browser = createTestBrowser()
      const answer = await signIn(system, browser, { claims: person }, { at })
      expect(answer.status).toBe(303)
      expect(await readSession(browser, system.url)).toMatchObject({ roles: ['admin'] })
      const asked = system.gateway.requests.findLast((request) => request.url === '/api/v1/whoami')
      expect(decodeJwt(String(asked?.headers['authorization']).replace('Bearer ', '')).aud).toBe(audience)
    }
  })

  test('do not answer for each other (mix-up)', async () => {
    const browser = createTestBrowser()
    const { url } = await browser.visit(`${system.url}/auth/login?provider=0`, {
      until: (each) => each.startsWith(staff.issuer),
    })
    const { searchParams } = new URL(url)
    const state = searchParams.get('state')
    partners.nonce = searchParams.get('nonce') ?? ''
    const answer = await browser.send(`${system.url}/auth/callback?code=c&state=${state}&iss=${partners.issuer}`)
    expect(answer.status).toBe(403)
  })
})
