import createClient from 'openapi-fetch'
import type { paths } from './generated/api.d.ts'
import { authorization, runSteps, url } from './steps'

const client = createClient<paths, 'application/json' | 'application/problem+json'>({
  baseUrl: url,
  headers: { authorization },
})

await runSteps({
  list: async (query) => {
    const { data = [], response } = await client.GET('/api/v1/findings', { params: { query } })
    return { status: response.status, items: data, link: response.headers.get('link') }
  },
  create: async (body) => {
    const { data, response } = await client.POST('/api/v1/findings', { body })
    return { status: response.status, id: data?.id }
  },
  upload: async (content) => {
    const { data, response } = await client.POST('/api/v1/evidence', {
      params: { query: { file_name: 'a.bin' } },
      headers: { 'content-type': 'application/octet-stream' },
      // The type of a binary body is `string`.
      body: content as never,
      bodySerializer: () => content,
    })
    return { status: response.status, sha256: data?.sha256 }
  },
  read: async (id) => {
    const { error, response } = await client.GET('/api/v1/findings/{id}', { params: { path: { id } } })
    return { status: response.status, code: error?.code }
  },
})
