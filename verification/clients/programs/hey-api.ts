import { client } from './generated/client.gen'
import { createFinding, getFinding, listFindings, uploadEvidence } from './generated/sdk.gen'
import { authorization, runSteps, url } from './steps'

client.setConfig({ baseUrl: url, auth: authorization })

await runSteps({
  list: async (query) => {
    const { data = [], response } = await listFindings({ query })
    return { status: response?.status ?? 0, items: data as unknown[], link: response?.headers.get('link') ?? null }
  },
  create: async (body) => {
    const { data, response } = await createFinding({ body })
    return { status: response?.status ?? 0, id: data?.id }
  },
  upload: async (body) => {
    const { data, response } = await uploadEvidence({ body, query: { file_name: 'a.bin' } })
    return { status: response?.status ?? 0, sha256: data?.sha256 }
  },
  read: async (id) => {
    const { error, response } = await getFinding({ path: { id } })
    return { status: response?.status ?? 0, code: error?.code }
  },
})
