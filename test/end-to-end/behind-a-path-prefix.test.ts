import { type PrefixProxy, type TestStack, startPrefixProxy, startTestStack } from '@postern/local-stack/testing'
import { Upload } from 'tus-js-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'

let proxy: PrefixProxy
let stack: TestStack
let key: string

beforeAll(async () => {
  proxy = await startPrefixProxy('/postern')
  stack = await startTestStack({ env: { POSTERN_API_URL: proxy.url } })
  proxy.forwardTo(stack.gateways[0] ?? '')
  ;({ key } = await stack.createKey(await stack.createTenant(), { scopes: ['read:*', 'write:*', 'admin:sync'] }))
})
afterAll(async () => {
  await stack.stop()
  await proxy[Symbol.asyncDispose]()
})

/** Sends a request to a URL, which may be relative to that of the page before it, as a browser resolves it. */
async function ask(url: string | URL, init: RequestInit & { readonly json?: unknown } = {}): Promise<Response> {
  const { json, headers, ...rest } = init
  const answer = await fetch(new URL(url, proxy.url), {
    ...rest,
    redirect: 'error',
    headers: {
      authorization: `ApiKey ${key}`,
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...Object.fromEntries(new Headers(headers)),
    },
    ...(json === undefined ? {} : { method: 'POST', body: JSON.stringify(json) }),
  })
  expect(answer.ok, `${String(url)}: ${answer.status}`).toBe(true)
  return answer
}

const api = (path: string) => `${proxy.url}${path}`
const nextOf = (answer: Response): string | undefined =>
  /<([^>]*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1]
const idsSchema = z.array(z.object({ id: z.string() }))

describe('behind a proxy that removes a path prefix', () => {
  test('Location leads to the created resource, and Link through every page of a list', async () => {
    const made: string[] = []
    for (const title of ['One', 'Two', 'Three']) {
      const finding = { title, condition: 'As seen.', severity: 'high' }
      const { headers } = await ask(api('/api/v1/findings'), { json: finding })
      const read = await ask(headers.get('location') ?? '')
      const { id, title: found } = z.object({ id: z.string(), title: z.string() }).parse(await read.json())
      expect(found).toBe(title)
      made.push(id)
    }
    const listed: string[] = []
    for (let url: string | undefined = api('/api/v1/findings?limit=1'); url !== undefined;) {
      const page = await ask(url)
      listed.push(...idsSchema.parse(await page.json()).map(({ id }) => id))
      url = nextOf(page)
    }
    expect(listed.toSorted()).toEqual(made.toSorted())
  })

  test('the change feed can be followed by its Link', async () => {
    const start = await ask(api('/api/v1/changes?since=now'))
    const made = await ask(api('/api/v1/findings'), {
      json: { title: 'Later', condition: 'As seen.', severity: 'low' },
    })
    const { id } = z.object({ id: z.string() }).parse(await made.json())
    const next = await ask(nextOf(start) ?? '')
    expect(idsSchema.parse(await next.json()).map((change) => change.id)).toContain(id)
  })

  test('a resumable upload ends with a receipt', async () => {
    const file = Buffer.from('evidence in two pieces')
    const receipt = await new Promise<string | undefined>((resolve, reject) => {
      new Upload(file, {
        endpoint: api('/api/v1/evidence/uploads'),
        headers: { authorization: `ApiKey ${key}` },
        metadata: { filename: 'notes.txt', filetype: 'text/plain' },
        chunkSize: 11,
        retryDelays: null,
        onSuccess: ({ lastResponse }) => resolve(lastResponse.getHeader('postern-receipt')),
        onError: reject,
      }).start()
    })
    expect(receipt).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/)
  })

  test('SCIM names users by a URL that works', async () => {
    const user = { schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'], userName: 'ada@harbourline.example' }
    const made = await ask(api('/scim/v2/Users'), {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/scim+json' },
      body: JSON.stringify(user),
    })
    const { meta } = z.object({ meta: z.object({ location: z.string() }) }).parse(await made.json())
    expect(meta.location).toBe(made.headers.get('location'))
    expect(meta.location.startsWith(api('/scim/v2/Users/'))).toBe(true)
    const read = await ask(meta.location, { headers: { authorization: `Bearer ${key}` } })
    expect(await read.json()).toMatchObject({ userName: 'ada@harbourline.example' })
  })

  test('the type of every problem leads to the page that explains it', async () => {
    const unknownKey = { headers: { authorization: 'ApiKey postern_unknown' } }
    const invalid = { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }
    const problems = [
      ['/api/v1/findings', unknownKey, 401],
      ['/api/v1/nothing', {}, 404],
      ['/api/v1/findings/00000000-0000-7000-8000-000000000000', {}, 404],
      ['/api/v1/findings', invalid, 422],
    ] as const
    for (const [path, init, status] of problems) {
      const answer = await fetch(api(path), {
        ...init,
        headers: { authorization: `ApiKey ${key}`, ...('headers' in init ? init.headers : {}) },
      })
      expect(answer.status).toBe(status)
      const { type, code } = z.object({ type: z.string(), code: z.string() }).parse(await answer.json())
      const page = await fetch(new URL(type, answer.url))
      expect([page.status, await page.text()]).toEqual([200, expect.stringContaining(code)])
    }
  })

  test('the reference links to an OpenAPI document whose server is the published URL', async () => {
    const reference = await ask(api('/docs'))
    const [, link = ''] = /<a href="([^"]*openapi\.json)"/.exec(await reference.text()) ?? []
    const document = await ask(new URL(link, reference.url))
    const { servers } = z.object({ servers: z.array(z.object({ url: z.string() })) }).parse(await document.json())
    expect(servers.map(({ url }) => new URL(url, document.url).href)).toEqual([proxy.url])
  })
})
