import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { type Answer, send } from '../../test/support/http.ts'

const identified = z.object({ id: z.string() })

/** Creates one of every resource, with the fuzzer's external ids and `text`. */
export async function populate(options: {
  readonly gateway: string
  readonly key: string
  readonly text: string
  readonly onAnswer: (path: string, answer: Answer) => void
}): Promise<void> {
  const { gateway, key, text, onAnswer } = options
  const call = async (method: 'GET' | 'POST', path: string, body?: unknown, headers = {}): Promise<unknown> => {
    const answer = await send(gateway, path, { key, method, headers, ...(body === undefined ? {} : { body }) })
    if (answer.status >= 300) throw new Error(`${method} ${path} was answered ${answer.status} ${answer.text}`)
    onAnswer(path, answer)
    return answer.json
  }
  await call('POST', '/api/v1/sync/people', [{ external_id: 'k1', name: text, email: 'ada.lund@x.example' }])
  await call('POST', '/api/v1/sync/entities', [
    { external_id: 'k1', name: text, type: 'process' },
    {
      external_id: 'k2',
      parent_external_id: 'k1',
      name: text,
      type: 'process',
      owner: { email: 'ada.lund@x.example' },
    },
    { external_id: 'k3', parent_external_id: 'k2', name: text, type: 'vendor' },
  ])
  await call('POST', '/api/v1/sync/test-procedures', [{ external_id: 'k1', title: text, entities: ['k1'] }])
  await call('POST', '/api/v1/connectors', { key: 'k1', name: text, type: 'csv', dataset: 'people' })
  await call('GET', '/api/v1/connectors?limit=1')
  for (const name of ['u1', 'u2', 'u3']) {
    const body = { userName: `${name}@x.example`, displayName: text, externalId: name }
    await call('POST', '/scim/v2/Users', body)
    await call('POST', '/scim/v2/Groups', { displayName: `${text} ${name}` })
  }
  for (const name of ['legal', 'h1']) {
    await call('POST', `/api/v1/sync/org-structures/${name}`, {
      name: text,
      kind: 'custom',
      mode: 'full',
      nodes: [
        { node_key: 'k1', name: text, entities: ['k1'] },
        { node_key: 'k2', parent_key: 'k1', name: text },
      ],
    })
  }
  const entities = z.array(identified).parse(await call('GET', '/api/v1/entities?limit=2'))
  for (const status of ['draft', 'open', 'open', 'open']) {
    const { id } = identified.parse(
      await call('POST', '/api/v1/findings', {
        title: text,
        condition: text,
        criteria: text,
        cause: text,
        consequence: text,
        severity: 'high',
        owner: { name: text },
        entity_ids: entities.map((entity) => entity.id),
        status,
      }),
    )
    await call('GET', `/api/v1/findings/${id}`)
    await call('POST', `/api/v1/findings/${id}/log`, { body: text })
    const recommendation = identified.parse(await call('POST', `/api/v1/findings/${id}/recommendations`, { text }))
    await call('GET', `/api/v1/recommendations/${recommendation.id}`)
    const plan = { title: text, owner: { name: text }, due_date: '2030-01-31', recommendation_ids: [recommendation.id] }
    const { id: planId } = identified.parse(await call('POST', `/api/v1/findings/${id}/action-plans`, plan))
    await call('GET', `/api/v1/action-plans/${planId}`)
  }
  for (const list of ['findings', 'action-plans', 'recommendations', 'remediation-log', 'entities', 'people']) {
    await call('GET', `/api/v1/${list}?limit=1`)
  }
  await call('GET', '/api/v1/test-procedures')
  await call('GET', '/api/v1/hierarchies')
  const nodes = z.array(identified).parse(await call('GET', '/api/v1/hierarchies/legal/nodes?limit=1'))
  for (const node of nodes) await call('GET', `/api/v1/hierarchy-nodes/${node.id}`)
  await call('GET', '/api/v1/changes?limit=2')
  for (const name of ['a', 'b', 'c']) {
    await call('POST', `/api/v1/evidence?file_name=${name}.txt`, `${text} ${randomUUID()}`, {
      'content-type': 'text/plain',
    })
    await call('POST', '/api/v1/evidence/uploads', undefined, {
      'tus-resumable': '1.0.0',
      'upload-length': '4',
      'upload-metadata': `filename ${btoa('a.txt')},filetype ${btoa('text/plain')}`,
    })
  }
}
