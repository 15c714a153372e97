import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PosternProblem, createPosternClient } from '@postern/client'
import { type TestStack, startTestStack } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from '../src/run.ts'

let stack: TestStack
let environment: Record<string, string>
let client: ReturnType<typeof createPosternClient>
let file: string

beforeAll(async () => {
  stack = await startTestStack()
  const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['admin:sync'] })
  const [gateway = ''] = stack.gateways
  client = createPosternClient({ baseUrl: gateway, key })
  file = join(stack.home, 'table.csv')
  environment = {
    POSTERN_HOME: stack.home,
    POSTERN_URL: gateway,
    POSTERN_API_KEY: key,
    POSTERN_KEYS_URL: stack.serviceUrl('keys'),
    POSTERN_SYNC_URL: stack.serviceUrl('sync'),
  }
})

afterAll(async () => await stack.stop())

async function postern(...args: string[]) {
  const said = { out: '', err: '' }
  const code = await run(args, environment, {
    out: (text) => void (said.out += text),
    err: (text) => void (said.err += text),
  })
  return { code, ...said }
}

const rows = (count: number) => ['Id;Name', ...Array.from({ length: count }, (_, n) => `${n};Person ${n}`)].join('\r\n')

describe('connectors, through the gateway', () => {
  test('that are not there, or are given no file, are refused', async () => {
    expect(await postern('connectors', 'run', 'nothing')).toMatchObject({ code: 4 })
    expect(await postern('connectors', 'run', 'nothing', '--file', '/does/not/exist')).toMatchObject({ code: 2 })
    environment['POSTERN_API_KEY'] = ''
    expect(await postern('connectors', 'list')).toMatchObject({ code: 2, err: /POSTERN_API_KEY/ })
    environment['POSTERN_API_KEY'] = (await stack.createKey(await stack.createTenant(), { scopes: ['*'] })).key
    expect(await postern('connectors', 'list')).toMatchObject({ code: 0 })
  })

  test('are run and watched until they have ended', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['admin:sync'] })
    environment['POSTERN_API_KEY'] = key
    client = createPosternClient({ baseUrl: environment['POSTERN_URL'] ?? '', key })
    const made = await client.sync.connectors.create({
      key: 'people',
      name: 'People',
      type: 'csv',
      dataset: 'people',
      mapping: [
        { target: 'external_id', source: 'Id' },
        { target: 'name', source: 'Name' },
      ],
    })
    await writeFile(file, rows(300))
    const first = await postern('connectors', 'run', 'people', '--file', file, '--watch')
    expect([first.code, first.err]).toEqual([0, expect.any(String)])
    expect(first.out).toMatch(/status +succeeded\n/)
    expect(first.out).toMatch(/applied +300/)
    await writeFile(file, rows(100))
    const second = await postern('connectors', 'run', 'people', '--file', file, '--watch')
    expect(second.out).toMatch(/status +needs_approval\n/)
    expect(second.out).toMatch(/beyond +max_deactivate: 200, allowed 50/)
    const [waiting] = await client.sync.runs.list({ status: 'needs_approval' }).all()
    expect(waiting?.connector_id).toBe(made.id)
    const cancelled = await client.sync.runs.cancel(waiting ?? '')
    expect(cancelled.status).toBe('cancelled')
    await expect(client.sync.runs.cancel(waiting ?? '')).rejects.toThrow(PosternProblem)
    expect((await postern('connectors', 'list')).out).toMatch(/people +People +csv +people +active/)
  })

  test('have their secrets put under the current key of the ring', async () => {
    expect(await postern('connectors', 'rewrap-secrets')).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^0 secrets of \d+ tenants are under the current key now\n$/),
    })
  })
})
