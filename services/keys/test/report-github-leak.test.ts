import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { generateKey } from '@postern/api-key'
import { apiKeyEventSchema } from '@postern/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { githubKeysSchema } from '../src/leak/github-keys.ts'
import {
  type KeysUnderTest,
  eventTypes,
  gatewayPrincipal,
  getKey,
  newKey,
  newTenant,
  path,
  revoke,
  startKeys,
} from './service.ts'

const address = '192.30.252.7'
const id = 'bcb53661c06b4728e59d897fb6165d5c9cda0fd9cdf9d09ead458168deb7518c'
const pair = (namedCurve = 'P-256') => generateKeyPairSync('ec', { namedCurve })
const [github, stranger] = [pair(), pair()]

/** As GitHub publishes its keys. */
function publish(keys: readonly (readonly [string, ReturnType<typeof pair>])[]): string {
  const shown = keys.map(([key_identifier, { publicKey }]) => {
    return { key_identifier, key: publicKey.export({ type: 'spki', format: 'pem' }), is_current: true }
  })
  return JSON.stringify({ public_keys: shown })
}

let service: KeysUnderTest
beforeAll(async () => {
  service = await startKeys({ env: { POSTERN_GITHUB_SCANNING_KEYS: publish([[id, github]]) } })
})
afterAll(async () => await service.close())

const target = '/api/v1/leaked-keys/github'
const client = { ...gatewayPrincipal, label: address }

async function post(text: string, headers: Record<string, string>, at = service) {
  return await at.call(client, 'POST', target, {
    body: text,
    headers: { 'content-type': 'application/json', ...headers },
  })
}

/** Signs as the documentation of the partner program describes (as of November 2026): over the raw body. */
function signedBy({ privateKey }: ReturnType<typeof pair>, text: string): Record<string, string> {
  const signature = sign('sha256', Buffer.from(text), privateKey).toString('base64')
  return { 'github-public-key-identifier': id, 'github-public-key-signature': signature }
}

async function report(matches: unknown) {
  const text = JSON.stringify(matches)
  return await post(text, signedBy(github, text))
}

function matchOf(token: string, url = 'https://github.example/octocat/hello/blob/main/a.txt') {
  return { token, type: 'postern_api_key', url, source: 'commit' }
}

describe('a report is refused, and the key stays active', () => {
  test('without a signature, with one of somebody else, of another body, or by an unknown key', async () => {
    const admin = await newTenant(service)
    const key = await newKey(service, admin)
    const text = JSON.stringify([matchOf(key.value)])
    const good = signedBy(github, text)
    const wrong: Record<string, string>[] = [
      {},
      { 'github-public-key-identifier': id },
      { 'github-public-key-signature': good['github-public-key-signature'] ?? '' },
      signedBy(stranger, text),
      signedBy(github, `${text} `),
      { ...good, 'github-public-key-identifier': 'f9525bf0' },
      { ...good, 'github-public-key-signature': 'MEQCIA' },
      { ...good, 'github-public-key-signature': '' },
    ]
    for (const headers of wrong) {
      const { status, text: said, json } = await post(text, headers)
      expect([headers, status]).toEqual([headers, 400])
      expect(json).toMatchObject({ code: 'bad_request', detail: 'The report is not signed by GitHub.' })
      expect(said).not.toContain(key.value.slice(8, 30))
    }
    expect(await getKey(service, admin, key.id)).toMatchObject({ state: 'active' })
    expect((await post(text, good)).status).toBe(200)
  })

  test('if its signed body is not a list of matches, and the answer repeats no token', async () => {
    const { value } = generateKey()
    for (const body of ['{', '[]', '{}', `[{"token":"${value}"}]`, `[{"token":"${value}","type":7}]`]) {
      const { status, text } = await post(body, signedBy(github, body))
      expect([body, [400, 422].includes(status)]).toEqual([body, true])
      expect(text).not.toContain(value.slice(8, 30))
    }
  })

  test('if the operator has not set GitHub’s keys', async () => {
    const other = await startKeys()
    try {
      const text = JSON.stringify([matchOf(generateKey().value)])
      expect(await post(text, signedBy(github, text), other)).toMatchObject({
        status: 404,
        json: { code: 'not_found', detail: expect.stringContaining('not set up') },
      })
    } finally {
      await other.close()
    }
  })
})

function labelled(token: string, label: string) {
  return { token_hash: createHash('sha256').update(token).digest('hex'), token_type: 'postern_api_key', label }
}

test('keys in a signed report are revoked, the trail says where they were found, and GitHub learns which are keys', async () => {
  const [admin, other] = [await newTenant(service), await newTenant(service)]
  const [active, foreign, revoked] = [
    await newKey(service, admin),
    await newKey(service, other),
    await newKey(service, admin),
  ]
  await revoke(service, admin, revoked.id)
  const unknown = generateKey().value
  const url = `https://github.example/octocat/${active.value}`
  const answer = await report([
    matchOf(active.value, url),
    matchOf(foreign.value),
    matchOf(revoked.value),
    matchOf(unknown),
    { ...matchOf('no key at all'), url: null, added: 'later' },
  ])
  expect(answer).toMatchObject({
    status: 200,
    json: [
      labelled(active.value, 'true_positive'),
      labelled(foreign.value, 'true_positive'),
      labelled(revoked.value, 'true_positive'),
      labelled(unknown, 'false_positive'),
      labelled('no key at all', 'false_positive'),
    ],
  })
  expect(await getKey(service, other, foreign.id)).toMatchObject({ state: 'revoked' })
  expect(await getKey(service, admin, active.id)).toMatchObject({
    state: 'revoked',
    revoked_by: { type: 'reporter', id: 'github', label: 'GitHub secret scanning' },
  })
  const events = await service.call(admin, 'GET', `${path}/${active.id}/events`)
  expect(apiKeyEventSchema.array().parse(events.json)[0]).toMatchObject({
    type: 'revoked',
    address,
    detail: { url: expect.stringMatching(/^https:\/\/github\.example\/octocat\/•••••/), report: expect.any(String) },
  })
  const audit = await service.call(admin, 'GET', `/api/v1/audit-events?action=key.leaked&resource=${active.id}`)
  expect(audit.json).toMatchObject([
    { actor_name: 'Postern', reason: 'Reported as leaked by GitHub secret scanning', source_ip: address },
  ])
  expect(await eventTypes(service, admin, revoked.id)).toEqual(['revoked', 'created'])
  for (const secret of [active.value, unknown]) expect(service.log.join('')).not.toContain(secret.slice(8, 30))
})

test('a replayed report is refused, and a new one of the same key is accepted', async () => {
  const admin = await newTenant(service)
  const { id: keyId, value } = await newKey(service, admin)
  const matches = [matchOf(value)]
  const answers = await Promise.all([report(matches), report(matches), report(matches)])
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409])
  const [replayed, further] = await Promise.all([report(matches), report([...matches, matchOf('another')])])
  expect(replayed.json).toMatchObject({ code: 'conflict' })
  expect(further.status).toBe(200)
  expect(await eventTypes(service, admin, keyId)).toEqual(['revoked', 'created'])
})

test('the setting is the document that GitHub publishes, with keys on the curve P-256', () => {
  expect(githubKeysSchema.parse(publish([[id, github]])).has(id)).toBe(true)
  const wrong = ['', '{}', '{"public_keys":[]}', publish([[id, pair('P-384')]]), publish([[id, github]]).slice(0, -2)]
  for (const text of wrong) expect(githubKeysSchema.safeParse(text).success).toBe(false)
})
