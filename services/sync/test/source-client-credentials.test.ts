import { once } from 'node:events'
import { createServer } from 'node:http'
import { text as textOf } from 'node:stream/consumers'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { useJsonSource } from './json-source-support.ts'
import { failureOf } from './source-support.ts'

const { answers, outbound, server, ids, refusal, always } = useJsonSource()

let provider: Provider
let tokenUrl: string
const issuing = createServer()
const secret = 'a-secret-of-the-client-with-enough-length'
let used: string[]

beforeAll(async () => {
  issuing.listen(0, '127.0.0.1')
  await once(issuing, 'listening')
  const address = issuing.address()
  const issuer = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
  provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'postern',
        client_secret: secret,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        scope: 'people',
      },
    ],
    scopes: ['people'],
    features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
  })
  issuing.on('request', (request, response) => void provider.callback()(request, response))
  tokenUrl = `${issuer}/token`
})
afterAll(() => {
  issuing.closeAllConnections()
  issuing.close()
})
beforeEach(() => {
  used = []
  answers['/people'] = ({ headers }, response) => {
    const token = headers.authorization?.replace('Bearer ', '') ?? ''
    used.push(token)
    const isStale = used.length === 1
    void provider.ClientCredentials.find(token).then((known) => {
      response.writeHead(known === undefined || isStale ? 401 : 200).end('[{"id": 1}]')
    })
  }
})

const auth = (): object => ({
  kind: 'oauth_client_credentials',
  token_url: tokenUrl,
  client_id: 'postern',
  scope: 'people',
})

test('a wrong client secret is rejected and is not in the message', async () => {
  const config = { url: `${server().url}/people`, auth: auth() }
  const failure = await failureOf('http_json', { config, secrets: { client_secret: 'wrong-secret' }, outbound })
  expect(failure.code).toBe('token_refused')
  expect(failure.message).not.toContain('wrong-secret')
  expect(used).toEqual([])
  expect(await refusal({ auth: auth() })).toBe('secret_missing')
})

test.each(['basic', 'post'])(
  'an authorization server that accepts the client secret only by %s receives it that way',
  async (method) => {
    // A secret with characters that only the header escapes.
    const own = 's:e+c r%t'
    const expected = method === 'basic' ? 'postern:s%3Ae%2Bc+r%25t' : `postern,${own}`
    const challenge = method === 'basic' ? { 'www-authenticate': 'Basic realm="x"' } : {}
    answers['/token'] = (request, response) => {
      void textOf(request).then((sent) => {
        const body = new URLSearchParams(sent)
        const basic = Buffer.from(request.headers.authorization?.replace('Basic ', '') ?? '', 'base64').toString()
        const told = method === 'basic' ? basic : [body.get('client_id'), body.get('client_secret')].join()
        const isKnown = told === expected
        response.writeHead(isKnown ? 200 : 401, { 'content-type': 'application/json', ...challenge })
        response.end(isKnown ? '{"access_token":"t","token_type":"bearer"}' : '{"error":"invalid_client"}')
      })
    }
    always([{ id: 1 }])
    const at = { ...auth(), token_url: `${server().url}/token` }
    const secrets = { client_secret: own }
    expect(await ids({ auth: { ...at, client_authentication: method } }, secrets)).toEqual([1])
    const other = method === 'basic' ? 'post' : 'basic'
    const config = { url: `${server().url}/people`, auth: { ...at, client_authentication: other } }
    const failure = await failureOf('http_json', { config, secrets, outbound })
    expect([failure.code, failure.message]).toEqual(['token_refused', expect.stringContaining(`to ${method} if`)])
  },
)

test('an authorization server also accepts the client secret in the header', async () => {
  used.push('a token that is fresh')
  expect(await ids({ auth: { ...auth(), client_authentication: 'basic' } }, { client_secret: secret })).toEqual([1])
})

test.each([
  [200, 'text/html', '<html>Sign in</html>', 'check `token_url`'],
  [200, 'application/json', '{"token":"t"}', 'check `token_url`'],
  [302, 'text/html', '', 'check `token_url`'],
  [404, 'text/html', '<html>Nothing here</html>', 'check `token_url`'],
  [400, 'application/json', '{"error":"invalid_scope","error_description":"a-word-of-theirs"}', '(invalid_scope): '],
  [400, 'application/json', '{"error":"A word of theirs"}', 'refuses an access token: check the'],
])('a token response of %s, %s, %s leads to a message that says what to fix', async (status, type, body, words) => {
  answers['/token'] = (_, response) => response.writeHead(status, { 'content-type': type }).end(body)
  const config = { url: `${server().url}/people`, auth: { ...auth(), token_url: `${server().url}/token` } }
  const failure = await failureOf('http_json', { config, secrets: { client_secret: secret }, outbound })
  expect([failure.code, failure.message]).toEqual(['token_refused', expect.stringContaining(words)])
  expect(failure.message).not.toMatch(/of.theirs/)
})

test('a source that rejects the access token is read with a new one', async () => {
  expect(await ids({ auth: auth() }, { client_secret: secret })).toEqual([1])
  expect(used).toHaveLength(2)
  expect(new Set(used).size).toBe(2)
})

test.each([429, 503])('an authorization server that answers %s is asked again later', async (status) => {
  let asked = 0
  answers['/token'] = (_, response) => {
    asked += 1
    if (asked === 1) response.writeHead(status, { 'retry-after': '0' }).end()
    else {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end('{"access_token":"t","token_type":"bearer","expires_in":3600}')
    }
  }
  answers['/people'] = ({ headers }, response) =>
    response.writeHead(headers.authorization === 'Bearer t' ? 200 : 401).end('[{"id": 1}]')
  const own = { ...auth(), token_url: `${server().url}/token` }
  expect([await ids({ auth: own }, { client_secret: secret }), asked]).toEqual([[1], 2])
  // One that puts it off for too long is not one that refuses the client.
  answers['/token'] = (_, response) => response.writeHead(429, { 'retry-after': '86400' }).end()
  const config = { url: `${server().url}/people`, auth: own }
  expect(await failureOf('http_json', { config, secrets: { client_secret: secret }, outbound })).toMatchObject({
    code: 'source_throttles',
    retryable: true,
  })
})

test('an access token is not requested from an address that is not allowed', async () => {
  const config = { url: `${server().url}/people`, auth: { ...auth(), token_url: 'http://169.254.169.254/token' } }
  const failure = await failureOf('http_json', { config, secrets: { client_secret: secret }, outbound })
  expect(failure.code).toBe('address_not_allowed')
})
