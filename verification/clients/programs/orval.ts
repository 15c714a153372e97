import { createFinding, getFinding, listFindings, uploadEvidence } from './generated/api'
import { authorization, runSteps } from './steps'

const options = { headers: { authorization } }

await runSteps({
  list: async (query) => {
    const answer = await listFindings(query, options)
    const items = answer.status === 200 && 'data' in answer && Array.isArray(answer.data) ? answer.data : []
    return { status: answer.status, items, link: answer.headers.get('link') }
  },
  create: async (finding) => {
    const answer = await createFinding(finding, options)
    return { status: answer.status, id: answer.status === 201 ? answer.data.id : undefined }
  },
  upload: async (content) => {
    const answer = await uploadEvidence(content, { file_name: 'a.bin' }, options)
    return { status: answer.status, sha256: answer.status === 201 ? answer.data.sha256 : undefined }
  },
  read: async (id) => {
    const answer = await getFinding(id, undefined, options)
    return { status: answer.status, code: answer.status === 404 ? answer.data.code : undefined }
  },
})
