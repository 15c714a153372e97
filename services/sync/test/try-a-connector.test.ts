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

async function tried({ url }: { readonly url: string }, config: object, secrets: object = {}): Promise<CallAnswer> {
  const [tenant, caller] = [admin(), world.syncCaller(url)]
  const whole = { url: `${source.url}/people`, ...config }
  const body = { key: 'people', name: 'People', type: 'http_json', dataset: 'people', config: whole, secrets }
  const { id } = connectorSchema.parse((await caller.call(tenant, 'POST', '/api/v1/connectors', { body })).json)
  return await caller.call(tenant, 'POST', `/api/v1/connectors/${id}/test`)
}

describe('a connector that is tried says what to mend', () => {
  test('where its source takes its time over each byte', async () => {
    answers['/people'] = (_, response) => void response.write('[')
    const detail = expect.stringContaining('within 0.5 s')
    expect(await tried(hasty, {})).toMatchObject({
      status: 422,
      json: { errors: [{ code: 'source_too_slow', detail }] },
    })
  })

  test.each(['abc\n', '\u5bc6\u7801', 'a\u0001b'])('where its secret can stand in no header: %j', async (token) => {
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
