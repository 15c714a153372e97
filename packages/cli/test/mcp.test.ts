import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { type TestStack, compileCache, programOf, startTestStack } from '@postern/local-stack/testing'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'

const contentSchema = z.array(z.object({ type: z.literal('text'), text: z.string() }))
const listSchema = z.object({
  items: z.array(z.looseObject({ id: z.string() })),
  next_cursor: z.string().optional(),
  next_since: z.string().optional(),
  total: z.number().optional(),
  note: z.string().optional(),
})

let stack: TestStack
let tenant: { id: string }
const open: Client[] = []

beforeAll(async () => {
  stack = await startTestStack()
  tenant = await stack.createTenant()
})
afterEach(async () => {
  for (const client of open.splice(0)) await client.close()
})
afterAll(async () => await stack.stop())

type Scopes = Parameters<TestStack['createKey']>[1]['scopes']

async function makeKey(...scopes: Scopes) {
  return await stack.createKey(tenant, { scopes })
}

async function connect(key: string, ...args: readonly string[]): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  const env = { PATH: '', NODE_COMPILE_CACHE: compileCache, POSTERN_URL: stack.gateways[0] ?? '', POSTERN_API_KEY: key }
  const command = [programOf('postern'), 'mcp', ...args]
  await client.connect(new StdioClientTransport({ command: process.execPath, args: command, env, stderr: 'ignore' }))
  open.push(client)
  return client
}

async function call(
  client: Client,
  name: string,
  given: Record<string, unknown>,
): Promise<[text: string, failed: boolean]> {
  const { content, isError = false } = await client.callTool({ name, arguments: given })
  const [part] = contentSchema.parse(content)
  return [part?.text ?? '', isError === true]
}

async function read(client: Client, name: string, given: Record<string, unknown> = {}): Promise<unknown> {
  const [text, failed] = await call(client, name, given)
  expect(failed, text).toBe(false)
  return JSON.parse(text)
}

async function namesOf(client: Client): Promise<string[]> {
  return (await client.listTools()).tools.map(({ name }) => name)
}

const late = { title: 'Access reviews are late', condition: 'As seen.', severity: 'high' }
const madeSchema = z.object({ value: z.looseObject({ id: z.string(), reference: z.string() }), etag: z.string() })

describe('postern mcp offers', () => {
  test('what the key may read, and nothing that writes', async () => {
    const names = await namesOf(await connect((await makeKey('read:findings', 'write:findings')).key))
    expect(names).toEqual(expect.arrayContaining(['whoAmI', 'listFindings', 'summarizeFindings', 'listChanges']))
    expect(names.filter((name) => /^(?:create|update|change)/.test(name))).toEqual([])
    expect(names.filter((name) => /Entit|People|Connector|Run/.test(name))).toEqual([])
  })

  test('what the key may write, only if writes are allowed', async () => {
    const { tools } = await (await connect((await makeKey('*')).key, '--allow-writes')).listTools()
    expect(tools.length).toBe(26)
    const writing = tools.filter(({ annotations }) => annotations?.readOnlyHint === false).map(({ name }) => name)
    expect(writing).toEqual([
      'createFinding',
      'updateFinding',
      'changeFindingStatus',
      'createRecommendation',
      'createActionPlan',
      'createLogEntry',
    ])
    for (const { name, description = '', inputSchema } of tools) {
      expect(description, name).toMatch(/^Use this [^.]+\./)
      expect(JSON.stringify(inputSchema), name).not.toContain('$ref')
    }
    // In characters: about four of them make a token.
    expect(JSON.stringify(tools).length).toBeLessThan(60_000)
  })
})

describe('the tools of postern mcp', () => {
  test('create, find and change a finding, and refuse a change of an older state', async () => {
    const client = await connect((await makeKey('read:findings', 'write:findings')).key, '--allow-writes')
    const { value } = madeSchema.parse(await read(client, 'createFinding', late))
    const { etag } = madeSchema.parse(await read(client, 'getFinding', { id: `ref:${value.reference}` }))
    const changed = await read(client, 'updateFinding', { id: value.id, etag, severity: 'low' })
    expect(changed).toMatchObject({ value: { severity: 'low' } })
    const [text, failed] = await call(client, 'updateFinding', { id: value.id, etag, severity: 'critical' })
    expect([text, failed]).toEqual([expect.stringContaining('precondition_failed'), true])
    expect(await read(client, 'getFinding', { id: value.id })).toMatchObject({ value: { severity: 'low' } })
  })

  test.each(['..', '.', ''])('reject %j as an id, because it would be the path of another resource', async (id) => {
    const client = await connect((await makeKey('read:findings')).key)
    const [text, failed] = await call(client, 'getFinding', { id })
    expect([text, failed]).toEqual([expect.stringContaining('must be ids'), true])
    const [other] = await call(client, 'getFinding', { id: '../whoami' })
    expect(other).not.toContain('"granted"')
  })

  test('list few resources with few members, and continue', async () => {
    const client = await connect((await makeKey('read:findings', 'write:findings')).key, '--allow-writes')
    for (let number = 0; number < 25; number += 1) {
      await read(client, 'createFinding', { ...late, title: `Of many ${number}`, severity: 'medium' })
    }
    const first = listSchema.parse(await read(client, 'listFindings', { severity: ['medium'], count: 'true' }))
    expect([first.items.length, first.total]).toEqual([20, 25])
    expect(Object.keys(first.items[0] ?? {})).not.toContain('condition')
    const rest = listSchema.parse(
      await read(client, 'listFindings', { severity: ['medium'], cursor: first.next_cursor ?? '' }),
    )
    expect([rest.items.length, rest.next_cursor]).toEqual([5, undefined])
    const chosen = listSchema.parse(await read(client, 'listFindings', { limit: 1, fields: ['id', 'condition'] }))
    expect(Object.keys(chosen.items[0] ?? {}).toSorted()).toEqual(['condition', 'id'])
  })

  test('follow changes from a position that the agent keeps', async () => {
    const client = await connect((await makeKey('read:findings', 'write:findings')).key, '--allow-writes')
    const { next_since: since } = listSchema.parse(await read(client, 'listChanges', { since: 'now' }))
    const { value } = madeSchema.parse(await read(client, 'createFinding', late))
    const { items } = listSchema.parse(await read(client, 'listChanges', { since }))
    expect(items).toContainEqual(expect.objectContaining({ kind: 'finding', change: 'created', id: value.id }))
    expect(items.every(({ id }) => id === value.id)).toBe(true)
  })

  test('leave out items that would not fit, and say how to get them', async () => {
    const client = await connect((await makeKey('read:findings', 'write:findings')).key, '--allow-writes')
    for (let number = 0; number < 4; number += 1) {
      await read(client, 'createFinding', { ...late, type: 'observation', condition: 'x'.repeat(15_000) })
    }
    const {
      items,
      note = '',
      next_cursor: next,
    } = listSchema.parse(await read(client, 'listFindings', { type: ['observation'], fields: ['id', 'condition'] }))
    expect([items.length, next]).toEqual([2, undefined])
    expect(note).toBe('Only 2 of 4 items fit. Repeat with limit 2 or fewer fields.')
  })

  test.each([
    ['listFindings', { severity: ['grave'] }, '`severity` must be one of critical, high, medium, low.\n(bad_request'],
    ['listFindings', { colour: 'red' }, 'colour'],
    ['createFinding', { ...late, titel: 'x' }, 'titel'],
    ['createFinding', { title: 'No more' }, 'Required arguments are missing: condition, severity.'],
    ['getFinding', {}, 'Required arguments are missing: id.'],
    ['getFinding', { id: 'ref:F-1999-0001' }, 'not_found'],
  ])('%s says what is wrong with %j', async (name, given, part) => {
    const client = await connect((await makeKey('read:findings', 'write:findings')).key, '--allow-writes')
    const [text, failed] = await call(client, name, given)
    expect([text, failed]).toEqual([expect.stringContaining(part), true])
  })

  test('do not exist if the key may not use them', async () => {
    const client = await connect((await makeKey('read:universe')).key)
    await expect(client.callTool({ name: 'listFindings', arguments: {} })).rejects.toThrow(
      'There is no tool listFindings',
    )
  })

  test('are refused once the key is revoked', async () => {
    const { key, id } = await makeKey('read:findings')
    const client = await connect(key)
    await read(client, 'listFindings')
    await stack.cli('keys', 'revoke', id, '--tenant', tenant.id)
    const [text, failed] = await call(client, 'listFindings', {})
    expect([text, failed]).toEqual([expect.stringContaining('key_revoked'), true])
    expect(text).not.toContain(key)
  })
})

test('postern mcp says why it does not start', async () => {
  const { key, id } = await makeKey('read:findings')
  await stack.cli('keys', 'revoke', id, '--tenant', tenant.id)
  await expect(connect(key)).rejects.toThrow('Connection closed')
})
