import { once } from 'node:events'
import { createServer } from 'node:http'
import { createdWebhookSchema, webhookDeliverySchema, webhookSchema } from '@postern/contracts'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../src/run.ts'

let stack: TestStack
let tenant: { readonly id: string }
const url = 'https://127.0.0.1:9/hook'

beforeAll(async () => {
  stack = await startTestStack({ env: { POSTERN_SYNC_NETWORKS: '127.0.0.1/32' } })
  tenant = await stack.createTenant()
})
afterAll(async () => await stack.stop())

async function postern(...args: string[]) {
  return await posternWith({}, ...args)
}

async function posternWith(settings: Record<string, string>, ...args: string[]) {
  const said = { out: '', err: '' }
  const env = {
    POSTERN_HOME: stack.home,
    POSTERN_KEYS_URL: stack.serviceUrl('keys'),
    POSTERN_SYNC_URL: stack.serviceUrl('sync'),
    ...settings,
  }
  const code = await run(['webhooks', ...args, '--tenant', tenant.id], env, {
    out: (text) => void (said.out += text),
    err: (text) => void (said.err += text),
    input: async () => '',
    isTerminal: false,
  })
  return { code, ...said }
}

test('an operator sets up an endpoint, tests it, replaces its secret, and deletes it', async () => {
  const made = await postern('create', url, '--event', 'key.*', '--description', 'Tickets', '--json')
  expect(made, made.err).toMatchObject({ code: 0 })
  const { id, secret } = createdWebhookSchema.parse(JSON.parse(made.out))
  const listed = await postern('list')
  expect(listed.out).toMatch(new RegExp(`${id} +${url} +enabled +key\\.\\* `))
  expect(listed.out).not.toContain('whsec_')

  const changed = await postern('update', id, '--url', `${url}s`, '--event', 'finding.*', 'key.leaked', '--json')
  expect(webhookSchema.parse(JSON.parse(changed.out))).toMatchObject({
    url: `${url}s`,
    events: ['finding.*', 'key.leaked'],
    description: 'Tickets',
  })
  expect(await postern('update', id)).toMatchObject({ code: 2, err: expect.stringContaining('pass --url') })
  expect(await postern('update', id, '--event', 'key.eaten')).toMatchObject({ code: 2 })

  const tested = await postern('test', id, '--json')
  const delivery = webhookDeliverySchema.parse(JSON.parse(tested.out))
  const deliveries = await postern('deliveries', id, '--limit', '5')
  expect(deliveries.out).toContain(delivery.id)
  expect((await postern('redeliver', id, '--delivery', delivery.id)).out).toContain(delivery.id)

  const rotated = await postern('rotate-secret', id, '--overlap-hours', '2')
  expect(rotated.out).toMatch(/whsec_/)
  expect(rotated.out).not.toContain(secret)
  const disabled = await postern('disable', id, '--json')
  expect(webhookSchema.parse(JSON.parse(disabled.out))).toMatchObject({
    state: 'disabled',
    created_by: { type: 'operator' },
  })
  expect(await postern('test', id)).toMatchObject({ code: 3, err: expect.stringContaining('Enable it first') })
  expect((await postern('enable', id)).out).toMatch(/state +enabled/)
  expect(await postern('delete', id)).toMatchObject({ code: 0, out: expect.stringContaining('is deleted') })
  expect(JSON.parse((await postern('list', '--json')).out)).toEqual([])
})

test('an answer that is not from the sync service is reported with its name', async () => {
  const other = createServer((_request, response) => response.end('hello'))
  await once(other.listen(0, '127.0.0.1'), 'listening')
  const address = other.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const { code, err } = await posternWith({ POSTERN_SYNC_URL: `http://127.0.0.1:${port}` }, 'list')
  other.close()
  expect(code).not.toBe(0)
  expect(err).not.toContain('keys service')
})

test('an unknown type, a missing file and a private address are refused', async () => {
  expect(await postern('create', url, '--event', '*', '--ca', '/missing.pem')).toMatchObject({
    code: 2,
    err: expect.stringContaining('/missing.pem cannot be read'),
  })
  const unknown = await postern('create', url, '--event', 'key.eaten')
  expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining('key.eaten') })
  const inside = await postern('create', 'https://10.0.0.1/hook', '--event', '*')
  expect(inside).toMatchObject({ code: 3, err: expect.stringContaining('may not reach') })
})
