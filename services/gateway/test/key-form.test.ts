import { generateKey } from '@postern/api-key'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keyRecord } from './builders.ts'
import { type TestGateway, startTestGateway } from './gateway.ts'

let gateway: TestGateway
const { value, hash } = generateKey()

beforeAll(async () => {
  gateway = await startTestGateway()
  gateway.keys.records.set(hash, keyRecord({ hash, scopes: ['*'], expiresAt: Date.now() + 86_400_000 }))
  await gateway.untilReady()
})
afterAll(async () => await gateway.close())

test.each([
  ['as a bearer token', { authorization: `Bearer ${value}` }, ''],
  ['as a name', { authorization: `Basic ${btoa(`${value}:`)}` }, ''],
  ['as a password', { authorization: `Basic ${btoa(`x:${value}`)}` }, ''],
  ['as Token', { authorization: `Token ${value}` }, ''],
  ['as X-API-Key', { 'x-api-key': value }, ''],
  ['bare', { authorization: value }, ''],
  ['behind two spaces', { authorization: `ApiKey  ${value}` }, ''],
  ['behind a tab', { authorization: `ApiKey\t${value}` }, ''],
  ['in quotes', { authorization: `ApiKey "${value}"` }, ''],
  ['in angle brackets', { authorization: `ApiKey <${value}>` }, ''],
  ['percent-encoded', { authorization: `ApiKey ${value.replace('_', '%5f')}` }, ''],
  ['in the URL', {}, `?api_key=${value}`],
])('a key that is sent %s gets 401, with the right form', async (_how, headers, query) => {
  const answer = await fetch(`http://127.0.0.1:${gateway.port}/api/v1/findings${query}`, { headers })
  const text = await answer.text()
  expect(answer.status).toBe(401)
  expect(text).toContain('API key')
  expect(text).toContain('Authorization: ApiKey, one space and the key')
  expect(answer.headers.get('www-authenticate')).toMatch(/^ApiKey/)
  expect(text + gateway.log.join()).not.toContain(value.slice(8))
  expect(gateway.keys.lookups).toBe(0)
})

test('control: the same key in the right form is accepted', async () => {
  expect((await gateway.get('/api/v1/findings', value)).status).toBe(200)
})
