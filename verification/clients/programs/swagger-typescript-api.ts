import { Api } from './generated/api'
import { authorization, runSteps, url } from './steps'

const { api } = new Api({ baseUrl: url, baseApiParams: { headers: { authorization } } })

/** This client throws its answer if the status is an error. */
function problemOf(answer: unknown): { readonly status: number; readonly code: string | undefined } {
  const { status, error } = answer as { status: number; error?: { code?: string } }
  return { status, code: error?.code }
}

await runSteps({
  list: async (query) => {
    const { status, data, headers } = await api.listFindings(query, { format: 'json' })
    return { status, items: data, link: headers.get('link') }
  },
  create: async (finding) => {
    const { status, data } = await api.createFinding(finding, { format: 'json' })
    return { status, id: data.id }
  },
  // It sends any other body as JSON, which the service refuses.
  upload: async (content) => {
    const { status, data } = await api.uploadEvidenceForm({ file: new File([content], 'a.bin') }, { format: 'json' })
    return { status, sha256: data[0]?.sha256 }
  },
  read: async (id) =>
    await api.getFinding(id, {}, { format: 'json' }).then(({ status }) => ({ status, code: undefined }), problemOf),
})
