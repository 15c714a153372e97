import { hash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '@postern/local-stack/testing'
import { SignJWT, exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from './run.ts'

const { privateKey, publicKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }
/** What the token endpoint answers, and the nonce of its ID token. */
let answer: { status: number; body: Record<string, unknown> } | undefined
let nonce: string | undefined

async function tokens(): Promise<Record<string, unknown>> {
  const seconds = Math.floor(Date.now() / 1000)
  const sign = async (claims: Record<string, unknown>) =>
    await new SignJWT({ iss: issuer, sub: 'person-4711', iat: seconds, exp: seconds + 300, ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .sign(privateKey)
  const accessToken = await sign({ aud: 'postern', organization: ['harbourline'], groups: ['leads'] })
  const atHash = hash('sha256', accessToken, 'buffer').subarray(0, 16).toString('base64url')
  return {
    token_type: 'Bearer',
    expires_in: 300,
    access_token: accessToken,
    id_token: await sign({ aud: 'postern-console', nonce, at_hash: atHash }),
  }
}

const server = createServer((request, response) => {
  void (async () => {
    const documents: Readonly<Record<string, () => unknown>> = {
      '/.well-known/openid-configuration': () => ({
        issuer,
        jwks_uri: `${issuer}/keys`,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        userinfo_endpoint: `${issuer}/userinfo`,
        device_authorization_endpoint: `${issuer}/device`,
        id_token_signing_alg_values_supported: ['ES256'],
      }),
      '/keys': () => ({ keys: [jwk] }),
      '/userinfo': () => ({ sub: 'person-4711', organization: 'harbourline', groups: ['leads'] }),
      '/device': () => ({
        device_code: 'd',
        user_code: 'WDJB-MJHT',
        verification_uri: `${issuer}/activate`,
        expires_in: 60,
        interval: 0.01,
      }),
      '/token': async () => answer?.body ?? (await tokens()),
    }
    const document = await documents[request.url ?? '']?.()
    const status = request.url === '/token' ? (answer?.status ?? 200) : 200
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document ?? {}))
  })()
})
let issuer: string
let folder: string

beforeAll(async () => {
  const listening = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', listening.resolve)
  await listening.promise
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the provider does not listen')
  issuer = `http://127.0.0.1:${address.port}`
  folder = await mkdtemp(join(tmpdir(), 'postern-sign-in-'))
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await rm(folder, { recursive: true, force: true })
})

async function check(
  claims: Record<string, unknown> | string,
  env: Record<string, string> = {},
  { args = [], machines }: { readonly args?: readonly string[]; readonly machines?: string } = {},
) {
  const usual = { iss: issuer, aud: 'postern', sub: 'person-4711', exp: Math.floor(Date.now() / 1000) + 300 }
  const signer = typeof claims === 'string' ? undefined : new SignJWT({ ...usual, ...claims })
  const token = (await signer?.setProtectedHeader({ alg: 'ES256', kid: 'one' }).sign(privateKey)) ?? String(claims)
  const file = join(folder, 'token.txt')
  await writeFile(file, `${token}\n`)
  const settings = join(folder, 'sign-in.yaml')
  const mapping = 'tenant: { from: [/organization] }, roles: { from: [/groups], map: { leads: auditor } }'
  const rule = machines === undefined ? '' : `, machines: ${machines}`
  await writeFile(settings, `providers: [{ name: Staff, issuer: '${issuer}', ${mapping}${rule} }]\n`)
  const [out, err]: [string[], string[]] = [[], []]
  const code = await run(
    ['sign-in', 'check', '--token', file, ...args],
    { POSTERN_SIGN_IN_FILE: settings, ...env },
    { out: (text) => out.push(text), err: (text) => err.push(text) },
  )
  expect(out.join('') + err.join('')).not.toContain(token)
  return { code, out: out.join(''), err: err.join('') }
}

test('a token that signs in shows what is read from where, and hides values', async () => {
  const { code, out } = await check({ name: 'Ada Lund', organization: { harbourline: {} }, groups: ['leads', 'x'] })
  expect([code, out]).toEqual([0, expect.stringContaining('provider: Staff')])
  expect(out).toMatch(/subject +pe… \(11 characters\) \(from \/sub\)/)
  expect(out).toMatch(/tenant +harbourline \(from \/organization\)/)
  expect(out).toMatch(/roles +auditor \(from \/groups\)/)
  expect(out).not.toContain('Ada Lund')
})

test.each<readonly [string, Record<string, unknown> | string, string]>([
  ['another audience', { aud: 'account' }, 'found "account", wanted "postern"'],
  ['no tenant', { groups: ['leads'] }, 'The token names no tenant (read from /organization)'],
  ['no mapped role', { organization: 'harbourline', groups: ['/Leads'] }, 'the nearest mapped name is "leads"'],
  ['no form of a JWT', 'opaque', 'set `read: id_token`. (not_a_jwt)'],
])('a token with %s exits with 1 and names the setting', async (_what, claims, text) => {
  const { code, err } = await check(claims)
  expect([code, err]).toEqual([1, expect.stringContaining(text)])
  const json = await check(claims, {}, { args: ['--json'] })
  expect([json.code, JSON.parse(json.err)]).toEqual([1, expect.objectContaining({ code: expect.any(String) })])
})

describe('the token of a service account', () => {
  const account = { organization: 'harbourline', groups: ['leads'], idtyp: 'app', azp: 'terraform' }

  test('that is accepted shows as which client', async () => {
    const { code, out } = await check(account, {}, { machines: '{ clients: [terraform] }' })
    expect([code, out]).toEqual([0, expect.stringContaining('accepted as terraform (machines.clients)')])
    const person = await check({ ...account, idtyp: 'user' }, {}, { machines: '{ clients: [terraform] }' })
    expect([person.code, person.out]).toEqual([0, expect.not.stringContaining('service account')])
  })

  test.each([
    ['machines: refuse', undefined],
    ['not in machines.clients: ci, backup', '{ clients: [ci, backup] }'],
  ])('that is refused names the member: %s', async (member, machines) => {
    const { code, out, err } = await check(account, {}, machines === undefined ? {} : { machines })
    expect([code, out]).toEqual([1, expect.stringContaining(`refused as "terraform" (${member})`)])
    expect(err).toContain('(machine_refused)')
  })

  test('that names no client is refused', async () => {
    const { out } = await check({ ...account, azp: undefined }, {}, { machines: '{ clients: [terraform] }' })
    expect(out).toContain('refused as nothing (not in machines.clients: terraform)')
  })
})

test('settings that are wrong or missing are named, and no request is sent', async () => {
  const wrong = await check({}, { POSTERN_SIGN_IN_FILE: '', POSTERN_SIGN_IN: 'providers: []' })
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('POSTERN_SIGN_IN: providers: must have')])
  const none = await check({}, { POSTERN_SIGN_IN_FILE: '' })
  expect([none.code, none.err]).toEqual([2, expect.stringContaining('no provider is configured')])
})

test('a provider that does not answer is not taken for a wrong token', async () => {
  const away = { POSTERN_SIGN_IN_FILE: '', POSTERN_OIDC_ISSUER: 'http://127.0.0.1:1' }
  const { code, err } = await check({ iss: 'http://127.0.0.1:1' }, away)
  expect([code, err]).toEqual([5, expect.stringContaining('the keys or the userinfo of the provider cannot be read')])
})

/** Runs the command, and follows the lines that it shows. */
async function signIn(
  args: readonly string[],
  follow: (line: string) => void = () => undefined,
  read = 'access_token',
) {
  const mapping = 'tenant: { from: [/organization] }, roles: { from: [/groups], map: { leads: auditor } }'
  const [out, err]: [string[], string[]] = [[], []]
  const code = await run(
    ['sign-in', 'check', ...args],
    { POSTERN_SIGN_IN: `providers: [{ name: Staff, issuer: '${issuer}', read: ${read}, ${mapping} }]` },
    {
      out: (text) => out.push(text),
      err: (text) => {
        err.push(text)
        follow(text)
      },
    },
  )
  return { code, out: out.join(''), err: err.join('') }
}

/** The person's browser, which comes back from the provider. */
function comeBack(line: string, parameters: string): void {
  const [, address] = /^open (http\S+)/.exec(line) ?? []
  if (address === undefined) return
  const { searchParams } = new URL(address)
  nonce = searchParams.get('nonce') ?? undefined
  void fetch(`${searchParams.get('redirect_uri')}?${parameters}&state=${searchParams.get('state')}`)
}

const comeBackSignedIn = (line: string): void => comeBack(line, 'code=c')

test('a person signs in with a redirect to the loopback address', async () => {
  const port = await findFreePort()
  const { code, out, err } = await signIn(['--port', String(port)], comeBackSignedIn)
  expect([code, out]).toEqual([0, expect.stringMatching(/roles +auditor \(from \/groups\)/)])
  expect(err).toContain(`the client must allow the redirect address http://127.0.0.1:${port}/callback`)
  expect(out + err).not.toContain('eyJ')
})

test('claims that only userinfo has are shown, masked', async () => {
  const args = ['--port', String(await findFreePort())]
  const none = await signIn(args, comeBackSignedIn, 'id_token')
  expect([none.code, none.err]).toEqual([1, expect.stringContaining('(tenant_claim_absent)')])
  const { code, out, err } = await signIn(args, comeBackSignedIn, 'userinfo')
  expect([code, out]).toEqual([0, expect.stringMatching(/roles +auditor \(from \/groups\)/)])
  expect(out).toMatch(/organization +ha… \(11 characters\)/)
  expect(out + err).not.toContain('eyJ')
})

test('a person signs in on another device', async () => {
  nonce = undefined
  const { code, out, err } = await signIn(['--device'])
  expect([code, out]).toEqual([0, expect.stringContaining('harbourline (from /organization)')])
  expect(err).toContain(`open ${issuer}/activate and enter WDJB-MJHT`)
})

test('the provider’s own error is shown, and exits with 1', async () => {
  const port = String(await findFreePort())
  const refused = 'error=access_denied&error_description=Not%20assigned'
  const denied = await signIn(['--port', port], (line) => comeBack(line, refused))
  expect([denied.code, denied.err]).toEqual([1, expect.stringContaining('access_denied: Not assigned')])
  answer = { status: 401, body: { error: 'invalid_client', error_description: 'Another secret' } }
  const rejected = await signIn(['--device'])
  answer = undefined
  expect([rejected.code, rejected.err]).toEqual([1, expect.stringContaining('invalid_client: Another secret')])
})

test('a provider that is not in the settings is refused before a request', async () => {
  const { code, err } = await signIn(['--provider', 'Partners'])
  expect([code, err]).toEqual([2, expect.stringContaining('choose one with --provider: Staff')])
})
