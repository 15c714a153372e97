/** @promise Operation: Events reach administrators by e-mail; a mail server that refuses is retried and logged. */

import { webhookDeliverySchema, webhookSchema } from '@postern/contracts'
import type { Principal, SignedCaller } from '@postern/local-stack/testing'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { startMailServer } from './mail-server.ts'
import { makeWorld } from './support.ts'
import { change, createEndpoint, deleteEndpoints, endRuns, person, webhooksOnly } from './webhook-support.ts'

let world: Awaited<ReturnType<typeof makeWorld>>
let sync: Awaited<ReturnType<typeof world.startSync>>
let caller: SignedCaller
let server: Awaited<ReturnType<typeof startMailServer>>

beforeAll(async () => {
  world = await makeWorld()
  server = await startMailServer()
  sync = await world.startSync('http://127.0.0.1:9', {
    ...webhooksOnly,
    ...server.settings,
    POSTERN_API_URL: 'https://api.bank.example',
  })
  caller = world.syncCaller(sync.url)
})
afterEach(async () => await deleteEndpoints(world.rows))
afterAll(async () => {
  await sync.close()
  await server.close()
  await world.close()
})

async function deliveries(tenant: Principal, id: string) {
  const answer = await caller.call(tenant, 'GET', `/api/v1/webhooks/${id}/deliveries`)
  return webhookDeliverySchema.array().parse(answer.json)
}

const mailsTo = (address: string) => server.mailsTo(address)

test('an event is sent to every address, with its meaning, time and link', async () => {
  const tenant = person()
  const { id } = await createEndpoint(caller, tenant, { url: 'mailto:soc@bank.example,ada.lund@bank.example' })
  const [runId = ''] = await endRuns(world.rows, tenant)
  await vi.waitFor(() => expect(mailsTo('soc@bank.example')).toHaveLength(1), { timeout: 60_000 })
  const [mail] = mailsTo('soc@bank.example')
  expect(mail?.to).toEqual(['soc@bank.example', 'ada.lund@bank.example'])
  expect(mail?.content).toContain('From: postern@bank.example')
  expect(mail?.content).toContain('Subject: Postern: A run ended')
  expect(mail?.content.replaceAll('=\r\n', '')).toContain(`https://api.bank.example/api/v1/sync-runs/${runId}`)
  await vi.waitFor(
    async () => expect(await deliveries(tenant, id)).toMatchObject([{ state: 'delivered', attempts: 1, status: null }]),
    { timeout: 60_000 },
  )
})

test('a mail that the server refuses is retried with the same Message-ID, and the log says why', async () => {
  const tenant = person()
  server.refuse('try again later')
  const { id } = await createEndpoint(caller, tenant, { url: 'mailto:later@bank.example' })
  await endRuns(world.rows, tenant)
  await vi.waitFor(async () => expect((await deliveries(tenant, id))[0]?.attempts).toBe(1), { timeout: 60_000 })
  const [delivery] = await deliveries(tenant, id)
  expect(delivery).toMatchObject({ state: 'pending', error: expect.stringContaining('451') })
  expect(JSON.stringify(delivery)).not.toContain('later@bank.example')
  server.refuse(undefined)
  await vi.waitFor(() => expect(mailsTo('later@bank.example')).toHaveLength(1), { timeout: 60_000 })
  expect(mailsTo('later@bank.example')[0]?.content).toContain(`Message-ID: <${delivery?.id}@postern>`)
})

test('a mailbox that the server does not know is an entry of the log', async () => {
  const tenant = person()
  const { id } = await createEndpoint(caller, tenant, { url: 'mailto:unknown@bank.example' })
  await endRuns(world.rows, tenant)
  await vi.waitFor(
    async () => expect((await deliveries(tenant, id))[0]?.error).toMatch(/^The mail server did not accept the mail/),
    { timeout: 60_000 },
  )
})

test('administrators get a mail when an endpoint is paused', async () => {
  const tenant = person()
  await createEndpoint(caller, tenant, { url: 'mailto:paused@bank.example', events: ['webhook.paused'] })
  const { id } = await createEndpoint(caller, tenant, { url: 'https://192.0.2.1/hook' }).catch(() => ({ id: '' }))
  expect(id).toBe('')
  const { id: failing } = await createEndpoint(caller, tenant, { url: 'mailto:unknown@bank.example' })
  await endRuns(world.rows, tenant)
  const read = async () => webhookSchema.parse((await caller.call(tenant, 'GET', `/api/v1/webhooks/${failing}`)).json)
  await vi.waitFor(async () => expect((await read()).failing_since).not.toBeNull(), { timeout: 60_000 })
  await world.rows(
    `update sync.webhook_endpoint set failing_since = now() - interval '73 hours', retry_at = null where id = $1`,
    [failing],
  )
  await world.rows('update sync.webhook_delivery set next_attempt_at = now() where endpoint_id = $1', [failing])
  await vi.waitFor(() => expect(mailsTo('paused@bank.example')).toHaveLength(1), { timeout: 60_000 })
  expect((await read()).state).toBe('paused')
  expect((await change(caller, tenant, failing, { state: 'disabled' })).status).toBe(200)
})

test.each(['mailto:', 'mailto:nobody', `mailto:${Array.from({ length: 11 }, (_, n) => `a${n}@x.example`).join(',')}`])(
  'the address %s is refused',
  async (url) => {
    const answer = await caller.call(person(), 'POST', '/api/v1/webhooks', { body: { url, events: ['*'] } })
    expect(answer).toMatchObject({ status: 422, json: { errors: [{ pointer: '/url' }] } })
  },
)

test('without a mail server, an e-mail address is refused', async () => {
  const without = await world.startSync('http://127.0.0.1:9', {
    POSTERN_SYNC_WORKERS: '0',
  })
  try {
    const body = { url: 'mailto:soc@bank.example', events: ['*'] }
    const answer = await world.syncCaller(without.url).call(person(), 'POST', '/api/v1/webhooks', { body })
    expect(answer).toMatchObject({ status: 422, json: { errors: [{ pointer: '/url', code: 'not_configured' }] } })
  } finally {
    await without.close()
  }
})
