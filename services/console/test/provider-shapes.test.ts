/**
 * @promise Browser: People sign in with the tokens of common providers, and each wrong setting is named in the log.
 */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type TestBrowser,
  type TestSignIn,
  createTestBrowser,
  findFreePort,
  startTestSignIn,
} from '@postern/local-stack/testing'
import { type SignInProvider, createUserinfoReader, openKeySet, parseSignIn, verifyToken } from '@postern/sign-in'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ConsoleSystem, readSession, startConsoleSystem, tenants } from './support.ts'

type Shape = NonNullable<Parameters<typeof startTestSignIn>[0]['shape']>

interface Case {
  readonly name: string
  /** The client secret of the settings, in place of the provider's. */
  readonly secret?: string
  readonly shape: Shape
  readonly settings: object
}

const id = tenants.harbourline
const directory = '00000000-1111-4222-8333-444444444444'
const asIdToken = { read: 'id_token', tenant: { otherwise: id } }
const groups = { from: ['/groups'], map: { 'Audit Leads': 'auditor' } }

/** Claims as the documentation of the providers describes them, read on 2026-11-29. */
const good: readonly Case[] = [
  {
    name: 'Keycloak',
    shape: {
      accessToken: {
        typ: 'Bearer',
        organization: [id],
        resource_access: { 'postern-console': { roles: ['postern-auditor'] } },
      },
    },
    settings: {
      tenant: { from: ['/organization'] },
      roles: { from: ['/resource_access/postern-console/roles'] },
    },
  },
  {
    name: 'Entra ID v1',
    shape: { audience: 'api://postern', accessToken: { ver: '1.0', tid: directory, roles: ['postern-auditor'] } },
    settings: {
      audience: ['api://postern'],
      tenant: { from: ['/tid'], map: { [directory]: id } },
      roles: { from: ['/roles'] },
    },
  },
  {
    name: 'Entra ID v2',
    shape: {
      accessToken: { ver: '2.0', oid: 'object-1', tid: directory, azp: 'postern-console', roles: ['Postern.Auditor'] },
    },
    settings: {
      subject: ['/oid'],
      tenant: { from: ['/tid'], map: { [directory]: id } },
      roles: { from: ['/roles'], map: { 'Postern.Auditor': 'auditor' } },
    },
  },
  {
    name: 'Okta',
    shape: { isOpaque: true, idToken: { ver: 1, idp: '00o1', groups: ['Everyone', 'Audit Leads'] } },
    settings: { ...asIdToken, roles: groups },
  },
  {
    name: 'Google',
    shape: { isOpaque: true, idToken: { hd: 'bank.example', email: 'ada@bank.example', email_verified: true } },
    settings: {
      read: 'id_token',
      tenant: { from: ['/hd'], map: { 'bank.example': id } },
      people: { 'ada@bank.example': 'auditor' },
    },
  },
  {
    name: 'Dex',
    shape: { isOpaque: true, idToken: { groups: ['Audit Leads'], email_verified: true } },
    settings: { ...asIdToken, roles: groups },
  },
  {
    name: 'Okta, with claims only in userinfo',
    shape: { isOpaque: true, userinfo: { groups: ['Everyone', 'Audit Leads'] } },
    settings: { read: 'userinfo', tenant: { otherwise: id }, roles: groups },
  },
  {
    name: 'Auth0',
    shape: {
      audience: 'https://postern.bank.example',
      accessToken: {
        azp: 'postern-console',
        'https://bank.example/t': id,
        'https://bank.example/r': ['postern-auditor'],
      },
    },
    settings: {
      audience: ['https://postern.bank.example'],
      tenant: { from: ['/https:~1~1bank.example~1t'] },
      roles: { from: ['/https:~1~1bank.example~1r'] },
    },
  },
  {
    name: 'Cognito',
    shape: { isOpaque: true, idToken: { token_use: 'id', 'custom:tenant': id, 'cognito:groups': ['Audit Leads'] } },
    settings: {
      read: 'id_token',
      tenant: { from: ['/custom:tenant'] },
      roles: { ...groups, from: ['/cognito:groups'] },
    },
  },
]

const usual = { postern_tenant: id, postern_roles: ['postern-auditor'] }
const wrong: readonly (Case & { readonly line: object })[] = [
  {
    name: 'audience',
    shape: { audience: 'account', accessToken: usual },
    settings: {},
    line: { code: 'other_audience', read: ['/aud'], found: '"account"', wanted: '"postern"' },
  },
  {
    name: 'client secret',
    secret: 'another-secret',
    shape: { accessToken: usual },
    settings: {},
    line: { code: 'client_rejected', found: expect.stringContaining('invalid_client') },
  },
  {
    name: 'opaque access token',
    shape: { isOpaque: true },
    settings: {},
    line: { code: 'not_a_jwt', advice: expect.stringContaining('`read: id_token`') },
  },
  {
    name: 'access token that is not for userinfo',
    shape: { accessToken: usual },
    settings: { read: 'userinfo' },
    line: { code: 'userinfo_refused', found: expect.stringContaining('status 401') },
  },
  {
    name: 'absent tenant claim',
    shape: { accessToken: { ...usual, postern_tenant: undefined } },
    settings: {},
    line: { code: 'tenant_claim_absent', read: ['/postern_tenant'] },
  },
  {
    name: 'list of two tenants',
    shape: { accessToken: { ...usual, postern_tenant: ['a1', 'b1'] } },
    settings: {},
    line: { code: 'tenant_ambiguous', read: ['/postern_tenant'], found: '["a1","b1"]' },
  },
  {
    name: 'slug of nobody',
    shape: { accessToken: { ...usual, postern_tenant: 'nowhere' } },
    settings: {},
    line: { code: 'tenant_unknown', read: ['/postern_tenant'], found: '"nowhere"' },
  },
  {
    name: 'roles under another name',
    shape: { accessToken: { ...usual, postern_roles: undefined, groups: ['postern-admin'] } },
    settings: {},
    line: { code: 'roles_claim_absent', read: ['/postern_roles'] },
  },
  {
    name: 'roles in other case',
    shape: { accessToken: { ...usual, postern_roles: ['audit leads'] } },
    settings: { roles: { map: { 'Audit Leads': 'auditor' } } },
    line: { code: 'no_mapped_role', found: '["audit leads"]', nearest: '"Audit Leads"' },
  },
  {
    name: 'roles with a leading slash',
    shape: { accessToken: { ...usual, postern_roles: ['/leads'] } },
    settings: { roles: { map: { leads: 'auditor' } } },
    line: { code: 'no_mapped_role', found: '["/leads"]', nearest: '"leads"' },
  },
]

let issuers: readonly TestSignIn[]
let providers: readonly SignInProvider[]
let system: ConsoleSystem

const [keysOf, readUserinfo] = [openKeySet, createUserinfoReader()]

/** Stands in for the gateway: it verifies tokens by the same package. */
const gateway = createServer((request, response) => {
  void (async () => {
    const token = (request.headers.authorization ?? '').replace('Bearer ', '')
    const check = await verifyToken(token, providers, { keysOf, readUserinfo })
    const person = check.kind === 'valid' && check.person.grants[0]?.tenant === id ? check.person : undefined
    const { subject = '', name = '', grants = [] } = person ?? {}
    const roles = grants[0]?.roles ?? []
    const tenant = { id, name: 'Harbourline Bank' }
    const access = [{ ...tenant, roles }]
    const body = {
      kind: 'user',
      id: subject,
      label: name,
      tenant,
      tenants: access,
      granted: [],
      scopes: [],
      roles,
      masked: null,
    }
    response.writeHead(person === undefined ? 401 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(person === undefined ? { code: 'invalid_token' } : { ...body, expires_at: null }))
  })()
})

beforeAll(async () => {
  const [port, gatewayPort] = [await findFreePort(), await findFreePort()]
  const consoleUrl = `http://127.0.0.1:${port}`
  const cases = [...good, ...wrong]
  issuers = await Promise.all(cases.map(async ({ shape }) => await startTestSignIn({ consoleUrl, tenants, shape })))
  const folder = await mkdtemp(join(tmpdir(), 'postern-shapes-'))
  const elsewhere = issuers[0]?.issuer.replace('127.0.0.1', 'localhost')
  const file = JSON.stringify({
    providers: await Promise.all(
      cases.map(async ({ name, settings, secret }, at) => {
        const issuer = issuers[at]
        const path = join(folder, `${at}`)
        await writeFile(path, secret ?? issuer?.clientSecret ?? '')
        return { name, issuer: issuer?.issuer, client_secret_file: path, person_prefix: `p${at}:`, ...settings }
      }),
    ).then((each) => [
      ...each,
      { name: 'issuer', issuer: elsewhere, person_prefix: 'other:', client_secret_file: join(folder, '0') },
    ]),
  })
  providers = parseSignIn(file)
  const listening = Promise.withResolvers<void>()
  gateway.listen(gatewayPort, '127.0.0.1', listening.resolve)
  await listening.promise
  system = await startConsoleSystem({
    POSTERN_PORT: String(port),
    POSTERN_CONSOLE_URL: consoleUrl,
    POSTERN_GATEWAY_URL: `http://127.0.0.1:${gatewayPort}`,
    POSTERN_OIDC_ISSUER: '',
    POSTERN_OIDC_CLIENT_SECRET: '',
    POSTERN_SIGN_IN: file,
  })
  await rm(folder, { recursive: true })
})
afterAll(async () => {
  await system.stop()
  await Promise.all(issuers.map(async (issuer) => await issuer.stop()))
  gateway.closeAllConnections()
  gateway.close()
})

async function signIn(browser: TestBrowser, at: number) {
  const chooser = await browser.visit(`${system.url}/auth/login?provider=${at}`)
  const [, action] = /<form method="post" action="(\/sign-in\/[^"]+)"/.exec(chooser.text) ?? []
  if (action === undefined) throw new Error(`the provider shows nobody: ${chooser.text}`)
  return await browser.visit(new URL(action, chooser.url).href, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'person=harbourline-auditor',
  })
}

function lastLine(event: string): unknown {
  const lines = system.logs.map((text): unknown => JSON.parse(text))
  return lines.findLast((line) => Object(line).event === event)
}

describe('a person signs in with tokens in the form of', () => {
  test.each(good.map(({ name }, at) => [name, at] as const))('%s', async (_name, at) => {
    const browser = createTestBrowser()
    await signIn(browser, at)
    expect(await readSession(browser, system.url)).toMatchObject({ roles: ['auditor'], tenant: { id } })
  })
})

test('an issuer that calls itself otherwise is named in the log, with both names', async () => {
  const page = await createTestBrowser().visit(`${system.url}/auth/login?provider=${good.length + wrong.length}`)
  expect([page.status, page.text]).toEqual([503, expect.stringContaining('<code>other_issuer</code>')])
  expect(lastLine('provider_unavailable')).toMatchObject({
    provider: 'issuer',
    code: 'other_issuer',
    found: expect.stringMatching(/^"http:\/\/127\.0\.0\.1:\d+"$/),
    wanted: expect.stringMatching(/^"http:\/\/localhost:\d+"$/),
  })
})

describe('a wrong setting signs nobody in, and is named in the log:', () => {
  test.each(wrong.map(({ name, line }, at) => [name, good.length + at, line] as const))(
    '%s',
    async (name, at, line) => {
      const page = await signIn(createTestBrowser(), at)
      expect(page.status).toBe(403)
      expect(lastLine('sign_in_refused')).toMatchObject({ provider: name, ...line })
    },
  )
})
