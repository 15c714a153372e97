import { text as textOf } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { useJsonSource } from './json-source-support.ts'
import { failureOf, readSource } from './source-support.ts'

const { answers, outbound, server } = useJsonSource()

const options = (config: object, secrets = {}) => ({
  config: { url: `${server().url}/api/people`, ...config },
  secrets,
  outbound,
})
const cursor = { kind: 'cursor', parameter: 'after', next: '/next' }

test.each(['/api/more', './more', '/other?page=2', '?page=2', 'more?page=2', '../api/more'])(
  'the next page %s in a response is resolved against the request URL',
  async (next) => {
    const more = new URL(next, `${server().url}/api/people`)
    answers['/api/people'] = ({ url }, response) => {
      const isFirst = !url?.includes('page=2')
      response.end(JSON.stringify({ rows: [{ id: isFirst ? 1 : 2 }], next: isFirst ? next : null }))
    }
    if (more.pathname !== '/api/people')
      answers[more.pathname] = (_, response) => void response.end('{"rows":[{"id":2}]}')
    const items = await readSource('http_json', options({ items: '/rows', paging: cursor }))
    expect(items.map(({ values }) => values?.['id'])).toEqual([1, 2])
  },
)

test.each(['abc', '/9j/4AAQSkZJRgABAQ==', '+/a=b'])('the cursor %s is sent as a parameter', async (next) => {
  const asked: unknown[] = []
  answers['/api/people'] = ({ url }, response) => {
    const after = new URL(url ?? '', server().url).searchParams.get('after')
    asked.push(after)
    response.end(JSON.stringify({ rows: [{ id: asked.length }], ...(after === null ? { next } : {}) }))
  }
  await readSource('http_json', options({ items: '/rows', paging: cursor }))
  expect(asked).toEqual([null, next])
})

test('a relative next page at another origin is refused', async () => {
  answers['/api/people'] = (_, response) => void response.end('{"rows":[{"id":1}],"next":"//elsewhere.example/api"}')
  const failure = await failureOf('http_json', options({ items: '/rows', paging: cursor }))
  expect(failure.code).toBe('page_elsewhere')
})

test('a token response with null members, a list of scopes or status 201 is accepted, and an audience is requested', async () => {
  const asked: string[] = []
  answers['/token'] = (request, response) => {
    void textOf(request).then((body) => {
      asked.push(body)
      response.writeHead(201, { 'content-type': 'application/json' })
      response.end(
        '{"access_token":"t","token_type":"Bearer","refresh_token":null,"expires_in":300,"scope":[],"id_token":null}',
      )
    })
  }
  answers['/api/people'] = ({ headers }, response) => void response.end(JSON.stringify([{ id: headers.authorization }]))
  const auth = {
    kind: 'oauth_client_credentials',
    token_url: `${server().url}/token`,
    client_id: 'postern',
    audience: 'https://api.example',
    resource: 'urn:people',
  }
  const items = await readSource('http_json', options({ auth }, { client_secret: 's' }))
  expect(items.map(({ values }) => values?.['id'])).toEqual(['Bearer t'])
  const sent = new URLSearchParams(asked[0])
  expect([sent.get('audience'), sent.get('resource')]).toEqual(['https://api.example', 'urn:people'])
})
