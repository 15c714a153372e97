import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openOutbound } from '../src/outbound/open-outbound.ts'
import { type Answers, type SourceServer, startSourceServer } from './source-server.ts'
import { failureOf, openSource, readSource } from './source-support.ts'

const token = 'a-token-of-the-provider'
const outbound = openOutbound({ networks: ['127.0.0.1'] })
const providers: ChildProcess[] = []
let url: string

/** A provider of 25 users; answers where it is. */
async function startProvider(): Promise<string> {
  const peer = fileURLToPath(new URL('./scim-peer.mjs', import.meta.url))
  const child = spawn(process.execPath, [peer], {
    env: { PATH: '/usr/bin:/bin', COUNT: '25', TOKEN: token },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  providers.push(child)
  for await (const line of createInterface({ input: child.stdout })) return `http://127.0.0.1:${line}/scim`
  throw new Error('the provider did not start')
}

beforeAll(async () => {
  url = await startProvider()
})
afterAll(() => {
  for (const provider of providers) provider.kill()
})

const options = (config: object = {}, secret = token) => ({
  config: { url, auth: { kind: 'bearer' }, page_size: 10, ...config },
  secrets: { token: secret },
  outbound,
})

describe('a SCIM service provider', () => {
  test('is not read with a wrong token', async () => {
    const failure = await failureOf('scim', options({}, 'another-token'))
    expect(failure.code).toBe('not_authorized')
    expect(failure.message).not.toContain('another-token')
  })

  test('is not read incompletely if a user on an earlier page is deleted', async () => {
    const own = await startProvider()
    const ids: unknown[] = []
    const read = async (): Promise<void> => {
      for await (const item of openSource('scim', options({ url: own }))) {
        const id = item.kind === 'row' ? item.values['id'] : item.code
        if (id === 'user-0') {
          const headers = { authorization: `Bearer ${token}` }
          expect((await fetch(`${own}/Users/${id}`, { method: 'DELETE', headers })).status).toBe(204)
        }
        ids.push(id)
      }
    }
    await expect(read()).rejects.toMatchObject({ code: 'list_incomplete', retryable: true })
    expect(ids).toHaveLength(10)
    expect(await readSource('scim', options({ url: own }))).toHaveLength(24)
  })

  test('is read to its end, in pages, with all attributes of a user', async () => {
    const items = await readSource('scim', options())
    expect(items).toHaveLength(25)
    expect(new Set(items.map((item) => (item.kind === 'row' ? item.values['id'] : item.code))).size).toBe(25)
    expect(items[1]).toMatchObject({
      kind: 'row',
      row: 2,
      values: {
        id: 'user-1',
        userName: 'person1@example.test',
        active: false,
        emails: [{ value: 'person1@example.test' }],
      },
    })
  })

  test('is read to its end also if its last page is full', async () => {
    const items = await readSource('scim', options({ page_size: 5 }))
    expect(new Set(items.map((item) => (item.kind === 'row' ? item.values['id'] : item.code))).size).toBe(25)
    expect(items).toHaveLength(25)
  })

  test('is read as far as a filter goes', async () => {
    const [item, ...others] = await readSource('scim', options({ filter: 'userName eq "person7@example.test"' }))
    expect(item).toMatchObject({ values: { id: 'user-7' } })
    expect(others).toEqual([])
  })
})

describe('a service provider that deviates from the standard', () => {
  const answers: Answers = {}
  let server: SourceServer
  beforeAll(async () => {
    server = await startSourceServer(answers)
  })
  afterAll(async () => await server.close())
  beforeEach(() => {
    server.asked.length = 0
  })

  /** Answers pages of two, of so many users, and says that there are `total`. */
  function provide(count: number, total: number, knowsStart = true): void {
    answers['/Users'] = (request, response) => {
      const start = Number(new URL(request.url ?? '', server.url).searchParams.get('startIndex'))
      const first = knowsStart ? start : 1
      const ids = [first, first + 1].filter((id) => id <= count)
      response.end(JSON.stringify({ totalResults: total, Resources: ids.map((id) => ({ id: String(id) })) }))
    }
  }

  test('and returns fewer users than it counts is a failure that can be retried', async () => {
    provide(5, 9)
    const failure = await failureOf('scim', options({ url: server.url }))
    expect(failure).toMatchObject({ code: 'list_incomplete', retryable: true })
  })

  test('and counts fewer users than it returns is read to its end', async () => {
    provide(5, 2)
    expect(await readSource('scim', options({ url: server.url, page_size: 2 }))).toHaveLength(5)
  })

  test('and counts each page separately, or zero beyond the end, is read to its end', async () => {
    const count: Record<string, (found: number, start: number) => number> = {
      '/alone/Users': (found) => found,
      '/beyond/Users': (_, start) => (start > 4 ? 0 : 4),
    }
    for (const [path, total] of Object.entries(count)) {
      answers[path] = (request, response) => {
        const start = Number(new URL(request.url ?? '', server.url).searchParams.get('startIndex'))
        const ids = [start, start + 1].filter((id) => id <= 4)
        response.end(JSON.stringify({ totalResults: total(ids.length, start), Resources: ids.map((id) => ({ id })) }))
      }
      const at = `${server.url}${path.replace('/Users', '')}`
      expect(await readSource('scim', options({ url: at, page_size: 2 })), path).toHaveLength(4)
    }
  })

  test('and repeats the same page is a failure', async () => {
    provide(5, 5, false)
    expect((await failureOf('scim', options({ url: server.url }))).code).toBe('paging_endless')
  })

  test('and sends null for an empty list is read as empty', async () => {
    answers['/Users'] = (_, response) => response.end('{"totalResults": 0, "Resources": null}')
    expect(await readSource('scim', options({ url: server.url }))).toEqual([])
  })

  test('and writes names in another case is read with the names of the standard', async () => {
    const user = {
      id: '1',
      username: 'ada',
      NAME: { familyname: 'Lund' },
      Emails: [{ VALUE: 'ada@x.example' }],
      cost: 'c',
    }
    answers['/Users'] = (_, response) => response.end(JSON.stringify({ totalresults: 1, resources: [user] }))
    const values = {
      id: '1',
      userName: 'ada',
      name: { familyName: 'Lund' },
      emails: [{ value: 'ada@x.example' }],
      cost: 'c',
    }
    expect(await readSource('scim', options({ url: server.url }))).toEqual([{ kind: 'row', row: 1, values }])
  })

  test('and repeats a name in a user causes an error, whatever the case of the list', async () => {
    answers['/Users'] = (_, response) =>
      response.end('{"TotalResults": 1, "RESOURCES": [{"id": "1", "username": "a", "username": "b"}]}')
    expect(await readSource('scim', options({ url: server.url }))).toMatchObject([
      { kind: 'error', field: 'userName', code: 'duplicate_key' },
    ])
  })

  test('and returns no list is a failure', async () => {
    answers['/Users'] = (_, response) => response.end('{"detail": "none"}')
    expect((await failureOf('scim', options({ url: server.url }))).code).toBe('items_missing')
  })
})
