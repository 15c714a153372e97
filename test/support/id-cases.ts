import { createHash, randomUUID } from 'node:crypto'
import { z } from 'zod'
import { type Kind, type Request, type Side, begin, finding, planned } from './two-sides.ts'

export const base = '/api/v1'
export const tus = { 'tus-resumable': '1.0.0' }
/** An outdated entity tag. */
const staleTag = '"1.2026-11-21"'

export const get = (path: string, headers: Record<string, string> = {}): Request => ({ path: base + path, headers })
export const post = (path: string, body?: unknown, headers: Record<string, string> = {}): Request => ({
  path: base + path,
  method: 'POST',
  headers,
  ...(body === undefined ? {} : { body }),
})
export const patch = (path: string, body: unknown, etag = '"1"'): Request => ({
  path: base + path,
  method: 'PATCH',
  body,
  headers: { 'if-match': etag },
})
export const text = { 'content-type': 'text/plain' }
/** A form with a file, which the metadata describes. */
export function form(metadata: object): Request {
  const boundary = 'form-of-the-tests'
  const part = (head: string, content: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n${content}\r\n`
  const body = `${part('name="metadata"', JSON.stringify(metadata))}${part('name="file"; filename="f.txt"', 'f')}--${boundary}--\r\n`
  return post('/evidence/forms', body, { 'content-type': `multipart/form-data; boundary=${boundary}` })
}
/** Evidence of both sides. */
const evidence = { sha256: createHash('sha256').update('text').digest('hex'), size: 4 }
export const bulk = (item: object, mode = 'best_effort') => ({ mode, items: [item] })

/** Creates a new finding for each request, because earlier requests may have changed it. */
export async function fresh(of: Side, body: object = {}): Promise<{ readonly id: string; readonly etag: string }> {
  const made = await of.send(post('/findings', { ...finding, ...body, external_id: randomUUID() }))
  const { id } = z.object({ id: z.string() }).parse(made.json)
  return { id, etag: String(made.headers['etag']) }
}
export async function freshPlan(of: Side): Promise<{ readonly id: string; readonly etag: string }> {
  const made = await of.send(post(`/findings/${of.ids.findings}/action-plans`, planned))
  return { id: z.object({ id: z.string() }).parse(made.json).id, etag: String(made.headers['etag']) }
}

/**
 * The expected response of the owner: different from a stranger's, this status, or the same because the id is stored
 * unchecked.
 */
type Control = 'another' | 'kept' | number
/** A request with an id. `of` is the owner of everything else in it. */
export type Case = readonly [
  kind: Kind,
  place: string,
  request: (id: string, of: Side) => Request | Promise<Request>,
  control?: Control,
]

/** Evidence has two names in a request. */
const evidenceCases = (member: 'evidence_id' | 'id'): readonly Case[] => [
  [
    'evidence',
    `evidence of an entry, as \`${member}\``,
    (at, of) => post(`/findings/${of.ids.findings}/log`, { body: 'b', evidence_refs: [{ ...evidence, [member]: at }] }),
  ],
  [
    'evidence',
    `evidence of a move, as \`${member}\``,
    async (at, of) =>
      post(`/findings/${(await fresh(of)).id}/status`, {
        to: 'cancelled',
        reason: 'r',
        evidence_refs: [{ ...evidence, [member]: at }],
      }),
  ],
  [
    'evidence',
    `evidence of a move of a plan, as \`${member}\``,
    async (at, of) =>
      post(`/action-plans/${(await freshPlan(of)).id}/status`, {
        to: 'cancelled',
        reason: 'r',
        evidence_refs: [{ ...evidence, [member]: at }],
      }),
  ],
  [
    'evidence',
    `evidence of a change of a plan, as \`${member}\``,
    async (at, of) => {
      const { id, etag } = await freshPlan(of)
      return patch(
        `/action-plans/${id}`,
        { status: 'cancelled', reason: 'r', evidence_refs: [{ ...evidence, [member]: at }] },
        etag,
      )
    },
  ],
  [
    'evidence',
    `evidence of a bulk item, as \`${member}\``,
    async (at, of) => {
      const { id } = await freshPlan(of)
      const item = {
        id,
        version: 1,
        status: 'cancelled',
        reason: 'r',
        evidence_refs: [{ ...evidence, [member]: at }],
      }
      return post('/action-plans/bulk', bulk(item))
    },
  ],
]

/** Requests whose ids are looked up. */
export const cases: readonly Case[] = [
  ['findings', 'path, expanded', (at) => get(`/findings/${at}?expand=recommendations,action_plans,log,entities`)],
  ['findings', 'path and If-Match of a change', (at) => patch(`/findings/${at}`, { title: 'Mine' }, staleTag)],
  ['findings', 'path of a move', (at) => post(`/findings/${at}/status`, { to: 'open' }), 409],
  ['findings', 'path of a new entry', (at) => post(`/findings/${at}/log`, { kind: 'note', body: 'n' })],
  ['findings', 'path of a new plan', (at) => post(`/findings/${at}/action-plans`, planned)],
  [
    'findings',
    'body, as what is repeated',
    (at) => post('/findings', { ...finding, external_id: randomUUID(), repeat_of_id: at }),
    422,
  ],
  [
    'findings',
    'body of a change, as what is repeated',
    async (at, of) => {
      const { id, etag } = await fresh(of)
      return patch(`/findings/${id}`, { repeat_of_id: at }, etag)
    },
    422,
  ],
  ['findings', 'bulk item', (at) => post('/findings/bulk', bulk({ id: at, version: 2, title: 'Mine' }))],
  [
    'findings',
    'bulk item of an atomic request',
    (at) => post('/findings/bulk', bulk({ id: at, version: 3, title: 'M' }, 'atomic')),
  ],
  [
    'findings',
    'bulk item, as what is repeated',
    (at) => post('/findings/bulk', bulk({ ...finding, external_id: randomUUID(), repeat_of_id: at })),
  ],
  [
    'findings',
    'bulk item, as the finding of a plan',
    (at) => post('/action-plans/bulk', bulk({ ...planned, finding: at })),
  ],
  ['findings', 'filter of plans', (at) => get(`/action-plans?count=true&finding_id=${at}`)],
  ['findings', 'filter of recommendations', (at) => get(`/recommendations?count=true&finding_id=${at}`)],
  [
    'recommendations',
    'body of a plan',
    (at, of) => post(`/findings/${of.ids.findings}/action-plans`, { ...planned, recommendation_ids: [at] }),
  ],
  [
    'recommendations',
    'body of a change of a plan',
    async (at, of) => {
      const { id, etag } = await freshPlan(of)
      return patch(`/action-plans/${id}`, { recommendation_ids: [at] }, etag)
    },
  ],
  [
    'recommendations',
    'bulk item',
    (at, of) => post('/action-plans/bulk', bulk({ ...planned, finding: of.ids.findings, recommendation_ids: [at] })),
  ],
  ['action-plans', 'path of a move', (at) => post(`/action-plans/${at}/status`, { to: 'verified' }), 409],
  [
    'action-plans',
    'path of an extension',
    (at) => post(`/action-plans/${at}/extensions`, { to: '2031-01-01', reason: 'r', approved_by: { name: 'n' } }),
  ],
  ['action-plans', 'bulk item', (at) => post('/action-plans/bulk', bulk({ id: at, version: 1, title: 'Mine' }))],
  [
    'entities',
    'body of a finding',
    (at) => post('/findings', { ...finding, external_id: randomUUID(), entity_ids: [at] }),
  ],
  [
    'entities',
    'body of a change of a finding',
    async (at, of) => {
      const { id, etag } = await fresh(of)
      return patch(`/findings/${id}`, { entity_ids: [at] }, etag)
    },
  ],
  [
    'entities',
    'bulk item',
    (at) => post('/findings/bulk', bulk({ ...finding, external_id: randomUUID(), entity_ids: [at] })),
  ],
  ['entities', 'path, expanded', (at) => get(`/entities/${at}?expand=ancestors,nodes,finding_counts`)],
  ['entities', 'filter of an expanded list', (at) => get(`/entities?subtree_of=${at}&expand=finding_counts`)],
  ['entities', 'filter, as the parent', (at) => get(`/entities?count=true&parent_id=${at}`)],
  ['entities', 'filter of findings', (at) => get(`/findings?count=true&entity_id=${at},${randomUUID()}`)],
  ['entities', 'filter of findings, as the top', (at) => get(`/findings?count=true&subtree_of=${at}`)],
  ['entities', 'filter of test procedures', (at) => get(`/test-procedures?count=true&entity_id=${at}`)],
  ['entities', 'filter of a summary', (at) => get(`/findings/summary?entity_id=${at}`)],
  ['entities', 'filter of a summary, as the top', (at) => get(`/findings/summary?subtree_of=${at}`)],
  ['entities', 'filter of a plan of action', (at) => get(`/exports/poam.json?entity_id=${at}`)],
  ['entities', 'filter of a plan of action, as the top', (at) => get(`/exports/poam.json?subtree_of=${at}`)],
  ['hierarchies', 'path of its nodes as they were', (at) => get(`/hierarchies/${at}/nodes?as_of=1`)],
  ['hierarchies', 'path of what differs', (at) => get(`/hierarchies/${at}/diff?from=0`)],
  ['hierarchy-nodes', 'filter of nodes, as the top', (at) => get(`/hierarchies/legal/nodes?subtree_of=${at}`)],
  ['hierarchy-nodes', 'filter of a tree', (at) => get(`/hierarchies/legal/tree?root=${at}`)],
  ['hierarchy-nodes', 'filter of entities', (at) => get(`/entities?hierarchy=legal&subtree_of=${at}`)],
  ['hierarchy-nodes', 'filter of findings', (at) => get(`/findings?hierarchy=legal&subtree_of=${at}`)],
  [
    'test-procedures',
    'body of a finding',
    (at) => post('/findings', { ...finding, external_id: randomUUID(), test_procedure_id: at }),
  ],
  [
    'test-procedures',
    'body of a change of a finding',
    async (at, of) => {
      const { id, etag } = await fresh(of)
      return patch(`/findings/${id}`, { test_procedure_id: at }, etag)
    },
  ],
  [
    'test-procedures',
    'bulk item',
    (at) => post('/findings/bulk', bulk({ ...finding, external_id: randomUUID(), test_procedure_id: at })),
  ],
  ['test-procedures', 'query of an upload', (at) => post(`/evidence?file_name=b.txt&test_procedure=${at}`, 'b', text)],
  ['test-procedures', 'metadata of a form', (at) => form({ test_procedures: [at] })],
  [
    'test-procedures',
    'query of a revision',
    async (at, of) => {
      const made = await of.send(post('/evidence?file_name=c.txt', randomUUID(), text))
      const { id } = z.object({ id: z.string() }).parse(made.json)
      return post(`/evidence/${id}/revisions?file_name=c.txt&test_procedure=${at}`, randomUUID(), text)
    },
  ],
  [
    'test-procedures',
    'body of an attachment',
    (at, of) => post(`/evidence/${of.ids.evidence}/attachments`, { test_procedures: [at] }),
  ],
  ['test-procedures', 'filter of evidence', (at) => get(`/evidence-files?count=true&test_procedure_id=${at}`), 'kept'],
  [
    'test-procedures',
    'metadata of a resumable upload',
    (at) =>
      post('/evidence/uploads', undefined, {
        ...begin,
        'upload-metadata': `${begin['upload-metadata']},metadata ${btoa(JSON.stringify({ test_procedures: [at] }))}`,
      }),
  ],
  ...evidenceCases('evidence_id'),
  ...evidenceCases('id'),
  ['evidence', 'path of a revision', (at) => post(`/evidence/${at}/revisions?file_name=a.txt`, randomUUID(), text)],
  [
    'evidence',
    'path of an attachment',
    (at) => post(`/evidence/${at}/attachments`, { test_procedures: ['ext:twin'] }),
    'another',
  ],
  ['uploads', 'path of HEAD', (at) => ({ path: `${base}/evidence/uploads/${at}`, method: 'HEAD', headers: tus })],
  [
    'uploads',
    'path of a piece',
    (at) => ({
      path: `${base}/evidence/uploads/${at}`,
      method: 'PATCH',
      body: Buffer.from('ab'),
      headers: { ...tus, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' },
    }),
  ],
  ['api-keys', 'filter of the audit feed', (at) => get(`/audit-events?resource=${at}`)],
  ['api-keys', 'filter of the log, as who wrote', (at) => get(`/remediation-log?actor=${at}`), 'kept'],
  ['api-keys', 'filter of the audit feed, as the event', (at) => get(`/audit-events?id=${at}`), 'kept'],
  ['api-keys', 'list of a preview', (at) => post('/api-keys/bulk/preview', { ids: [at] })],
  ['api-keys', 'list of a change', (at) => post('/api-keys/bulk', { action: 'revoke', ids: [at], version: 'old' })],
  ['connectors', 'filter of entities', (at) => get(`/entities?count=true&connector_id=${at}`), 'kept'],
  [
    'connectors',
    'path of a run',
    (at) => post(`/connectors/${at}/runs`, 'external_id,name\n', { 'content-type': 'text/csv' }),
  ],
  [
    'connectors',
    'path of a try',
    (at) => post(`/connectors/${at}/test`, 'external_id,name\na,b\n', { 'content-type': 'text/csv' }),
  ],
  [
    'deliveries',
    'delivery to send again',
    (at, of) => post(`/webhooks/${of.ids.webhooks}/deliveries`, { delivery_id: at }),
  ],
  [
    'Users',
    'member of a group',
    (at) => ({
      path: '/scim/v2/Groups',
      method: 'POST',
      body: { displayName: randomUUID(), members: [{ value: at }] },
    }),
  ],
  [
    'Users',
    'member of a group that is replaced',
    (at, of) => ({
      path: `/scim/v2/Groups/${of.ids.Groups}`,
      method: 'PUT',
      body: { displayName: 'g1', members: [{ value: at }] },
    }),
  ],
  [
    'Groups',
    'path of a change of a group',
    (at) => ({
      path: `/scim/v2/Groups/${at}`,
      method: 'PATCH',
      body: {
        schemas: ['urn:ietf:params:scim:api:messages:2.0:PatchOp'],
        Operations: [{ op: 'replace', path: 'displayName', value: 'g' }],
      },
    }),
  ],
]
