import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SignJWT, exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from './run.ts'

const { privateKey, publicKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }
const server = createServer((request, response) => {
  const isDiscovery = request.url === '/.well-known/openid-configuration'
  response.end(JSON.stringify(isDiscovery ? { issuer, jwks_uri: `${issuer}/keys` } : { keys: [jwk] }))
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

async function check(claims: Record<string, unknown> | string, env: Record<string, string> = {}, ...more: string[]) {
  const usual = { iss: issuer, aud: 'postern', sub: 'person-4711', exp: Math.floor(Date.now() / 1000) + 300 }
  const signer = typeof claims === 'string' ? undefined : new SignJWT({ ...usual, ...claims })
  const token = (await signer?.setProtectedHeader({ alg: 'ES256', kid: 'one' }).sign(privateKey)) ?? String(claims)
  const file = join(folder, 'token.txt')
  await writeFile(file, `${token}\n`)
  const settings = join(folder, 'sign-in.yaml')
  const mapping = 'tenant: { from: [/organization] }, roles: { from: [/groups], map: { leads: auditor } }'
  await writeFile(settings, `providers: [{ name: Staff, issuer: '${issuer}', ${mapping} }]\n`)
  const [out, err]: [string[], string[]] = [[], []]
  const code = await run(
    ['sign-in', 'check', '--token', file, ...more],
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
  const json = await check(claims, {}, '--json')
  expect([json.code, JSON.parse(json.err)]).toEqual([1, expect.objectContaining({ code: expect.any(String) })])
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
  expect([code, err]).toEqual([5, expect.stringContaining('the keys of the provider cannot be read')])
})
