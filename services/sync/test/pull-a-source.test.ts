import { type Connector, runSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import type { TenantDb } from '@postern/tenant-db'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import { useRuns } from './run-support.ts'
import { type Answers, type SourceServer, startSourceServer } from './source-server.ts'
import { admin } from './support.ts'

const { parts, work, create, now, errorsOf, names } = useRuns()
const outbound = openOutbound({ networks: ['127.0.0.1'] })

const answers: Answers = {}
let server: SourceServer
beforeAll(async () => {
  server = await startSourceServer(answers)
})
afterAll(async () => await server.close())

async function pull(tenant: Principal, { id }: Connector) {
  const { json } = await parts().caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`)
  const run = runSchema.parse(json)
  await work(run, { outbound })
  return await now(tenant, run)
}

const levels = 100_000
const deep = `${'['.repeat(levels)}${']'.repeat(levels)}`
const entity = (key: string, custom: string) =>
  `{"external_id":"${key}","name":"Entity ${key}","type":"process","custom":${custom}}`

describe('an item that is nested too deep does not fail the run', () => {
  test.each([
    ['of entities over HTTP', entity('A', `{"region":${deep}}`)],
    ['beside a number of many digits', entity('A', `{"region":${deep},"number":12345678901234567890}`)],
    ['twice in one item', entity('A', `{"region":${deep}},"owner":${deep}`)],
  ])('%s', async (_where, item) => {
    const tenant = admin()
    answers['/entities'] = (_, response) => response.end(`[${item},${entity('B', '{}')}]`)
    const connector = await create(tenant, { type: 'http_json', config: { url: `${server.url}/entities` } })
    const run = await pull(tenant, connector)
    expect(run).toMatchObject({ status: 'partial', counts: { fetched: 2, invalid: 1, applied: 1 } })
    expect(await errorsOf(tenant, run)).toMatchObject([{ row: 1, source_key: 'A', code: 'nested_too_deep' }])
    expect(await names(tenant)).toEqual(['Entity B active'])
  })

  test('of users of a SCIM provider', async () => {
    const tenant = admin()
    const users = `{"id":"1","displayName":${deep}},{"id":"2","displayName":"Bo"}`
    answers['/Users'] = (_, response) => response.end(`{"totalResults":2,"Resources":[${users}]}`)
    const mapping = [
      { target: 'external_id', source: 'id' },
      { target: 'name', source: 'displayName' },
    ]
    const connector = await create(tenant, {
      type: 'scim',
      dataset: 'people',
      config: { url: server.url, resource: 'Users' },
      mapping,
    })
    const run = await pull(tenant, connector)
    expect(run).toMatchObject({ status: 'partial', counts: { fetched: 2, invalid: 1, applied: 1 } })
    expect(await errorsOf(tenant, run)).toMatchObject([{ row: 1, source_key: '1', code: 'nested_too_deep' }])
  })
})

test('a secret that cannot be decrypted fails the run at once and asks for a new one', async () => {
  const tenant = admin()
  const config = { url: `${server.url}/secret`, auth: { kind: 'bearer' } }
  const connector = await create(tenant, { type: 'http_json', config, secrets: { token: 'a-token-of-the-source' } })
  const damage = `update sync.connector_secret set sealed = 'v1.gone.AAAA.AAAA' where connector_id = $1`
  await parts().world.rows(damage, [connector.id])
  const run = await pull(tenant, connector)
  const message = expect.stringContaining('`token`')
  expect(run).toMatchObject({ status: 'failed', failure: { code: 'secret_unreadable', message } })
  expect(server.asked).not.toContain('/secret')
})

test('a new secret is not sent to the address that the old one was for', async () => {
  const tenant = admin()
  const heard: unknown[] = []
  for (const path of ['/old', '/new']) {
    answers[path] = ({ headers }, response) => {
      heard.push([path, headers.authorization])
      response.end(`[${entity('A', '{}')}]`)
    }
  }
  const auth = { kind: 'bearer' }
  const config = { url: `${server.url}/old`, auth }
  const { id } = await create(tenant, { type: 'http_json', config, secrets: { token: 'old-secret' } })
  const { json } = await parts().caller.call(tenant, 'POST', `/api/v1/connectors/${id}/runs`)
  const run = runSchema.parse(json)
  const { workerDb } = parts()
  // Changed by somebody once a worker has the run.
  const change = async (): Promise<void> => {
    const headers = { 'if-match': '*' }
    const body = { config: { url: `${server.url}/new`, auth }, secrets: { token: 'new-secret' } }
    expect((await parts().caller.call(tenant, 'PATCH', `/api/v1/connectors/${id}`, { body, headers })).status).toBe(200)
  }
  const changing: TenantDb = {
    ...workerDb,
    system: async (task) => {
      if ((await now(tenant, run)).attempt === 1) await change()
      return await workerDb.system(task)
    },
  }
  await expect(work(run, { outbound, workerDb: changing })).rejects.toThrow('was changed when the run began')
  await work(run, { outbound })
  expect(heard).toEqual([['/new', 'Bearer new-secret']])
  expect(await names(tenant)).toEqual(['Entity A active'])
})
