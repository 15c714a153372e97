import { once } from 'node:events'
import { type Socket, createServer } from 'node:net'
import { connectorSchema } from '@postern/contracts'
import type { CallAnswer } from '@postern/local-stack/testing'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Answers, type SourceServer, startSourceServer } from './source-server.ts'
import { admin, makeWorld } from './support.ts'

// What is tried here needs no universe.
const nowhere = 'http://127.0.0.1:9'
const answers: Answers = {}
let world: Awaited<ReturnType<typeof makeWorld>>
let source: SourceServer
let sync: Awaited<ReturnType<typeof world.startSync>>
let hasty: Awaited<ReturnType<typeof world.startSync>>

beforeAll(async () => {
  world = await makeWorld()
  source = await startSourceServer(answers)
  const env = { POSTERN_SYNC_NETWORKS: '127.0.0.0/8', POSTERN_SYNC_WORKERS: '0' }
  sync = await world.startSync(nowhere, env)
  hasty = await world.startSync(nowhere, env, { maxDurationMs: 500 })
})
afterAll(async () => {
  await hasty.close()
  await sync.close()
  await source.close()
  await world.close()
})
beforeEach(() => {
  source.asked.length = 0
})

async function tried(at: { readonly url: string }, config: object, secrets: object = {}): Promise<CallAnswer> {
  const whole = { url: `${source.url}/people`, ...config }
  return await triedOf(at, { type: 'http_json', config: whole, secrets })
}

async function triedOf({ url }: { readonly url: string }, fields: object): Promise<CallAnswer> {
  const [tenant, caller] = [admin(), world.syncCaller(url)]
  const body = { key: 'people', name: 'People', dataset: 'people', ...fields }
  const { id } = connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
  return await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/test`)
}

describe('a connector test says what to fix', () => {
  test('if its source sends byte by byte', async () => {
    answers['/people'] = (_, response) => void response.write('[')
    const detail = expect.stringContaining('within 0.5 s')
    expect(await tried(hasty, {})).toMatchObject({
      status: 422,
      json: { errors: [{ code: 'source_too_slow', detail }] },
    })
  })

  test.each([
    {
      type: 'sql',
      config: { engine: 'mariadb', encryption: 'none', database: 'erp', username: 'reader', view: 'units' },
    },
    { type: 'sql', config: { engine: 'postgres', database: 'erp', username: 'reader', view: 'units' } },
    { type: 'ldap', config: { bind_dn: 'cn=reader', base_dn: 'dc=example' } },
    { type: 'ldap', config: { bind_dn: 'cn=reader', base_dn: 'dc=example', encryption: 'starttls' } },
  ])('if its source is silent: %j', async ({ type, config }) => {
    const silent = createServer().listen(0, '127.0.0.1')
    const accepted: Socket[] = []
    silent.on('connection', (socket) => accepted.push(socket.on('error', () => undefined)))
    await once(silent, 'listening')
    const address = silent.address()
    const port = typeof address === 'object' ? address?.port : undefined
    try {
      const secrets = { password: 'a-password' }
      const at = { ...config, host: '127.0.0.1', port }
      expect(await triedOf(hasty, { type, config: at, secrets })).toMatchObject({
        status: 422,
        json: { errors: [{ code: 'source_too_slow', detail: expect.stringContaining('within 0.5 s') }] },
      })
    } finally {
      for (const socket of accepted) socket.destroy()
      silent.close()
    }
  })

  test.each(['abc\n', '\u5bc6\u7801', 'a\u0001b'])('if its secret is not a valid header value: %j', async (token) => {
    answers['/people'] = (_, response) => response.end('[{"external_id":"A","name":"A"}]')
    for (const auth of [{ kind: 'bearer' }, { kind: 'header', name: 'X-Token' }]) {
      const answer = await tried(sync, { auth }, { token })
      expect(answer).toMatchObject({ status: 422, json: { errors: [{ code: 'secret_invalid' }] } })
      expect(answer.text).not.toContain(JSON.stringify(token).slice(1, -1))
    }
    expect(source.asked).toEqual([])
    expect((await tried(sync, { auth: { kind: 'bearer' } }, { token: 'abc' })).status).toBe(200)
  })
})
