import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text as textOf } from 'node:stream/consumers'
import { runSchema } from '@postern/contracts'
import { PosternProblem, createPosternClient } from '@postern/client'
import { type TestStack, randomRing, startTestStack } from '@postern/local-stack/testing'
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
  return await posternWith('', ...args)
}

async function posternWith(input: string, ...args: string[]) {
  return await carriedOut(args, { input })
}

async function carriedOut(args: string[], { input = '', isTerminal = false }, env = environment) {
  const said = { out: '', err: '' }
  const code = await run(args, env, {
    out: (text) => void (said.out += text),
    err: (text) => void (said.err += text),
    input: async () => input,
    isTerminal,
  })
  return { code, ...said }
}

const nameless = (count: number) => Array.from({ length: count }, (_, n) => `${1000 + n};`)
const rows = (count: number) => ['Id;Name', ...Array.from({ length: count }, (_, n) => `${n};Person ${n}`)].join('\r\n')

test('a failing output is reported, with an exit code of its own', async () => {
  const full = await open('/dev/full', 'w')
  const main = join(import.meta.dirname, '..', 'src', 'main.ts')
  const args = ['--conditions=@postern/source', main, '--help']
  const child = spawn(process.execPath, args, { stdio: ['ignore', full.fd, 'pipe'] })
  const [said, [code]] = await Promise.all([textOf(child.stderr ?? Readable.from([])), once(child, 'exit')])
  await full.close()
  expect([code, said]).toEqual([1, expect.stringMatching(/^postern: the output cannot be written \(ENOSPC\)/)])
})

describe('connectors, through the gateway', () => {
  test('that do not exist or need a file are rejected', async () => {
    expect(await postern('connectors', 'run', 'nothing')).toMatchObject({ code: 4 })
    expect(await postern('connectors', 'run', 'nothing', '--file', '/does/not/exist')).toMatchObject({ code: 2 })
    environment['POSTERN_API_KEY'] = ''
    expect(await postern('connectors', 'list')).toMatchObject({ code: 2, err: /POSTERN_API_KEY/ })
    environment['POSTERN_API_KEY'] = 'postern_short'
    const malformed = await postern('connectors', 'list')
    expect(malformed).toMatchObject({ code: 2, err: expect.stringContaining('POSTERN_API_KEY') })
    expect(malformed.err).not.toContain('short')
    environment['POSTERN_API_KEY'] = (await stack.createKey(await stack.createTenant(), { scopes: ['*'] })).key
    expect(await postern('connectors', 'list')).toMatchObject({ code: 0 })
  })

  test('are run and watched until they end', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['admin:sync'] })
    environment['POSTERN_API_KEY'] = key
    client = createPosternClient({ baseUrl: environment['POSTERN_URL'] ?? '', key })
    const made = await client.sync.connectors.create({
      key: 'people',
      name: 'People',
      type: 'csv',
      dataset: 'people',
      missing_policy: 'deactivate',
      mapping: [
        { target: 'external_id', source: 'Id' },
        { target: 'name', source: 'Name' },
      ],
    })
    const fileless = await postern('connectors', 'run', 'people')
    const why = 'Send the file to be read as the body of the request: the body is missing (invalid_content, request '
    expect(fileless).toMatchObject({ code: 3, out: '', err: expect.stringContaining(`postern: ${why}`) })
    await writeFile(file, '')
    // An error of the whole body is reported once.
    const empty = await postern('connectors', 'test', 'people', '--file', file)
    expect(empty.err).toMatch(/^postern: The source cannot be read: the file is empty[^;]*header \(invalid_content, /)
    await writeFile(file, rows(300))
    const tried = await postern('connectors', 'test', 'people', '--file', file)
    expect(tried).toMatchObject({ code: 0, out: expect.stringContaining('"name":"Person 0"') })
    const first = await postern('connectors', 'run', 'people', '--file', file, '--watch')
    expect([first.code, first.err]).toEqual([0, expect.stringMatching(/^succeeded {2}300 rows, 0 with errors$/m)])
    // At once, so that a run can be found whose command has ended before it.
    expect(first.err).toMatch(/^run [0-9a-f-]{36}\n/)
    expect(first.out).toMatch(/status +succeeded\n/)
    expect(first.out).toMatch(/applied +300/)
    await writeFile(file, rows(100))
    const watched = ['connectors', 'run', 'people', '--file', file, '--watch']
    const second = await carriedOut(watched, { isTerminal: true })
    // Each line in the place of the one before.
    const [start, ...lines] = second.err.split('\r\u001B[2K')
    expect([start, lines.at(-1)]).toEqual([
      expect.stringMatching(/^run [0-9a-f-]{36}\n$/),
      expect.stringMatching(/^needs_approval {2}100 rows, 0 with errors\npostern: the run exceeds a limit/),
    ])
    expect(lines.slice(0, -1).join('')).not.toContain('\n')
    expect([second.code, second.out]).toEqual([3, expect.stringMatching(/status +needs_approval\n/)])
    expect(second.out).toMatch(/missing +200 rows missing from the source\n/)
    expect(second.out).toMatch(/exceeds +max_deactivate: 200, allowed 50/)
    const [waiting] = await client.sync.runs.list({ status: 'needs_approval' }).all()
    expect(waiting?.connector_id).toBe(made.id)
    const id = waiting?.id ?? ''
    const other = await postern('connectors', 'approve', id, '--diff-hash', '0'.repeat(64))
    expect(other).toMatchObject({ code: 3 })
    const ended = await postern('connectors', 'cancel', id)
    expect([ended.code, ended.out]).toEqual([0, expect.stringMatching(/status +cancelled\n/)])
    expect(await postern('connectors', 'cancel', id)).toMatchObject({ code: 3 })
    await expect(client.sync.runs.cancel(id)).rejects.toThrow(PosternProblem)
    const third = await postern('connectors', 'run', 'people', '--file', file, '--watch', '--json')
    expect([third.code, JSON.parse(third.err)]).toEqual([3, expect.objectContaining({ code: 'run_needs_approval' })])
    const { id: again, diff_hash: hash } = runSchema.parse(JSON.parse(third.out))
    const approved = await postern('connectors', 'approve', again, '--diff-hash', hash ?? '', '--watch')
    expect([approved.code, approved.out]).toEqual([0, expect.stringMatching(/status +succeeded\n/)])
    expect((await postern('connectors', 'missing', 'people')).out.match(/^\d+ +\d{4}-/gm)).toHaveLength(200)
    const undone = await postern('connectors', 'rollback', again, '--reason', 'A test', '--watch')
    expect([undone.code, undone.out]).toEqual([0, expect.stringMatching(/200 reactivated/)])
    expect((await postern('connectors', 'errors', again)).code).toBe(0)
    expect((await postern('connectors', 'runs', '--connector', 'people')).out.match(/succeeded/g)).toHaveLength(3)
    expect((await postern('connectors', 'list')).out).toMatch(/people +People +csv +people +active/)
  })

  test('have runs that can be shown one by one, with their errors', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['admin:sync'] })
    environment['POSTERN_API_KEY'] = key
    client = createPosternClient({ baseUrl: environment['POSTERN_URL'] ?? '', key })
    const mapping = [
      { target: 'external_id', source: 'Id' },
      { target: 'name', source: 'Name' },
    ]
    await client.sync.connectors.create({ key: 'staff', name: 'Staff', type: 'csv', dataset: 'people', mapping })
    expect(await postern('connectors', 'show-run', crypto.randomUUID())).toMatchObject({ code: 4, out: '' })
    expect(await postern('connectors', 'show-run', 'staff')).toMatchObject({ code: 4, out: '' })

    const runOf = async (...lines: string[]) => {
      await writeFile(file, [rows(2), ...lines].join('\r\n'))
      const begun = await postern('connectors', 'run', 'staff', '--file', file, '--dry-run', '--watch', '--json')
      return runSchema.parse(JSON.parse(begun.out))
    }
    const { id } = await runOf(...nameless(1))
    const shown = await postern('connectors', 'show-run', id)
    expect([shown.code, shown.err]).toEqual([0, ''])
    for (const line of [
      `run +${id}`,
      'connector +staff',
      'status +succeeded',
      'mode +dry_run',
      'begun +[-0-9]{10} [:0-9]{8}Z by .+ \\(upload\\)',
      'rows +3 read, 2 valid, 1 with errors',
      'changes +2 created, .*',
      'ROW +KEY +FIELD +PROBLEM +VALUE',
      '4 +1000 +name +\\S.*',
    ]) {
      expect(shown.out).toMatch(new RegExp(`^${line}$`, 'm'))
    }
    const inJson = await postern('connectors', 'show-run', id, '--json')
    expect(runSchema.parse(JSON.parse(inJson.out))).toEqual(await client.sync.runs.get(id))
    const many = await postern('connectors', 'show-run', (await runOf(...nameless(30))).id)
    expect(many.out.match(/^\d+ +10\d\d +name/gm)).toHaveLength(20)
    expect(many.out).toMatch(/\nThere are more: connectors errors [0-9a-f-]{36}\n$/)
    await writeFile(file, [rows(2), ...nameless(1)].join('\r\n'))
    const tested = await postern('connectors', 'test', 'staff', '--file', file, '--json')
    expect([tested.code, JSON.parse(tested.err)]).toMatchObject([3, { code: 'rows_invalid' }])
    const partial = await postern('connectors', 'run', 'staff', '--file', file, '--watch')
    expect([partial.code, partial.err]).toEqual([
      3,
      expect.stringContaining('postern: the run was applied only in part: '),
    ])
    // The outcome of the run is not the outcome of the command that shows it.
    await writeFile(file, 'Id;Other\r\n1;x')
    const headless = await postern('connectors', 'run', 'staff', '--file', file, '--watch', '--json')
    const { id: failed } = runSchema.parse(JSON.parse(headless.out))
    expect(await postern('connectors', 'show-run', failed)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/status +failed: /),
    })
  })

  test('are not read from a page that is not from the API', async () => {
    const page = createServer((_request, response) => void response.end('<!doctype html>')).listen(0, '127.0.0.1')
    await once(page, 'listening')
    const address = page.address()
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    const answer = await carriedOut(['connectors', 'list'], {}, { ...environment, POSTERN_URL: url })
    page.close()
    expect(answer).toMatchObject({
      code: 5,
      err: expect.stringContaining(`${url} answered with something that is not`),
    })
  })

  test('cannot control the terminal with the content of their file', async () => {
    const { key } = await stack.createKey(await stack.createTenant(), { scopes: ['admin:sync'] })
    environment['POSTERN_API_KEY'] = key
    client = createPosternClient({ baseUrl: environment['POSTERN_URL'] ?? '', key })
    const mapping = [
      { target: 'external_id', source: 'Id' },
      { target: 'name', source: 'Name' },
    ]
    await client.sync.connectors.create({ key: 'staff', name: 'Staff', type: 'csv', dataset: 'people', mapping })
    await writeFile(file, 'Id\u001b]0;RENAMED\u0007,\u009b31mName\n1,a\n')
    for (const command of ['test', 'run']) {
      for (const more of [[], ['--json']]) {
        const watch = command === 'run' ? ['--watch'] : []
        const { code, out, err } = await postern('connectors', command, 'staff', '--file', file, ...watch, ...more)
        expect(code).not.toBe(0)
        expect((out + err).replaceAll('\n', '')).not.toMatch(/\p{Cc}/u)
      }
    }
  })

  test('are created from a file, with secrets from another file or standard input that are never printed', async () => {
    const config = join(stack.home, 'connector.json')
    const secrets = join(stack.home, 'secrets.json')
    const create = (...more: string[]) => ['connectors', 'create', 'erp', '--config', config, ...more]
    const setup = { dataset: 'people', config: { url: 'https://erp.example/people', auth: { kind: 'bearer' } } }
    await writeFile(config, JSON.stringify({ ...setup, secrets: { token: 'hush-hush' } }))
    const inside = await postern(...create('--type', 'http_json'))
    expect(inside).toMatchObject({ code: 2, err: expect.stringContaining('remove `secrets`') })
    await writeFile(config, JSON.stringify(setup))
    await writeFile(secrets, '{"token": hush-hush}')
    const broken = await postern(...create('--type', 'http_json', '--secrets', secrets))
    expect(broken).toMatchObject({ code: 2, err: expect.stringContaining('secrets.json is not JSON') })
    expect(await postern(...create('--type', 'telex'))).toMatchObject({ code: 2, err: expect.stringContaining('type') })
    const unknown = await posternWith('{"word": "hush-hush"}', ...create('--type', 'http_json', '--secrets', '-'))
    expect(unknown).toMatchObject({ code: 3, err: expect.stringContaining('/secrets/word') })
    const made = await posternWith('{"token": "hush-hush"}', ...create('--type', 'http_json', '--secrets', '-'))
    expect(made).toMatchObject({ code: 0, out: expect.stringMatching(/secrets +token\n/) })
    const again = await postern(...create('--type', 'http_json', '--json'))
    expect(again).toMatchObject({ code: 3, err: expect.stringContaining('"code":"conflict"') })
    for (const { out, err } of [inside, broken, unknown, made, again]) expect(out + err).not.toContain('hush-hush')
    expect((await postern('connectors', 'list')).out).toMatch(/erp +erp +http_json +people +active/)
    expect((await postern('connectors', 'create', '--help')).out).toContain('--secrets <file>')
  })

  test('have their secrets encrypted with the current key, and failing ones are listed', async () => {
    const ofTenants = / secrets of \d+ tenants are encrypted with the current key now\n$/
    const rewrap = ['connectors', 'rewrap-secrets']
    const ring = join(stack.home, 'ring')
    expect(await postern(...rewrap)).toMatchObject({
      code: 0,
      out: expect.stringMatching(new RegExp(`^0${ofTenants.source}`)),
    })
    await writeFile(ring, `${randomRing('next')},${stack.ring('POSTERN_SYNC_SECRETS')}`, { mode: 0o600 })
    await stack.restart('sync', { POSTERN_SYNC_SECRETS_FILE: ring })
    // That of the connector `erp`.
    expect(await postern(...rewrap)).toMatchObject({
      code: 0,
      out: expect.stringMatching(new RegExp(`^1${ofTenants.source}`)),
    })
    await writeFile(ring, randomRing('other'))
    await stack.restart('sync', { POSTERN_SYNC_SECRETS_FILE: ring })
    expect(await postern(...rewrap)).toMatchObject({
      code: 3,
      err: expect.stringMatching(/token of connector [0-9a-f-]{36} \(tenant /),
    })
    const told = await postern(...rewrap, '--json')
    expect(JSON.parse(told.out)).toMatchObject({ rewrapped: 0, unreadable: [{ name: 'token' }] })
    expect(JSON.parse(told.err)).toMatchObject({ code: 'secrets_unreadable', unreadable: [{ name: 'token' }] })
  })
})
