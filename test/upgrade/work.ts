import { createHash } from 'node:crypto'
import { internalPaths } from '@postern/contracts/internal'
import { type TestStack, operator } from '@postern/local-stack/testing'
import { expect } from 'vitest'
import { z } from 'zod'
import { send } from '../support/http.ts'

const idSchema = z.looseObject({ id: z.string() })

/** A tenant on the services of some release, and a key of it for everything. */
export interface Site {
  readonly gateway: string
  readonly key: string
  readonly keyId: string
  /** What an operator, or an administrator of the tenant, asks the keys service for. Gives its answer, which must be 200 or 201. */
  readonly asOperator: (path: string, body: unknown) => Promise<unknown>
}

export async function openSite(stack: TestStack): Promise<Site> {
  const ask = async (path: string, body: unknown, tenantId = operator.tenantId): Promise<unknown> => {
    const answer = await stack.operator.call({ ...operator, tenantId }, 'POST', path, { body })
    expect([200, 201], answer.text).toContain(answer.status)
    return answer.json
  }
  const tenant = idSchema.parse(await ask(internalPaths.tenants, { slug: 'upgrade', name: 'Upgrade' }))
  const body = { label: 'x', scopes: ['*'], expires_in: '30d' }
  const made = idSchema.extend({ key: z.string() }).parse(await ask('/api/v1/api-keys', body, tenant.id))
  return {
    gateway: stack.gateways[0] ?? '',
    key: made.key,
    keyId: made.id,
    asOperator: async (path, content) => await ask(path, content, tenant.id),
  }
}

interface Content {
  readonly body?: object | string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends what must be answered with `status`. */
async function must({ gateway, key }: Site, status: number, method: string, path: string, content: Content = {}) {
  const answer = await send(gateway, path, { key, method, ...content })
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBe(status)
  return answer
}

/** Lists without the contract of this release, which has members that an earlier one does not know. */
async function list({ gateway, key }: Site, path: string): Promise<z.output<typeof idSchema>[]> {
  const listed = await fetch(`${gateway}${path}`, { headers: { authorization: `ApiKey ${key}` } })
  expect(listed.status).toBe(200)
  return z.array(idSchema).parse(await listed.json())
}

/** Entities are pushed, a finding is documented, changed and opened, and a plan for it is approved. Gives the finding. */
export async function documentFinding(site: Site): Promise<unknown> {
  const entity = { external_id: 'bank', name: 'Bank', type: 'legal_entity' }
  await must(site, 200, 'POST', '/api/v1/sync/entities', { body: [entity] })
  const entities = await list(site, '/api/v1/entities')
  expect(entities).toMatchObject([{ external_id: 'bank' }])
  const finding = await must(site, 201, 'POST', '/api/v1/findings', {
    body: {
      title: 'Old and new',
      condition: 'Seen.',
      criteria: 'Asked.',
      cause: 'Forgotten.',
      consequence: 'Little.',
      severity: 'low',
      entity_ids: entities.map((found) => found.id),
      owner: { name: 'Ada', email: 'ada@example.com' },
    },
  })
  const { id } = idSchema.parse(finding.json)
  const changed = await must(site, 200, 'PATCH', `/api/v1/findings/${id}`, {
    headers: { 'content-type': 'application/merge-patch+json', 'if-match': String(finding.headers['etag']) },
    body: JSON.stringify({ severity: 'high' }),
  })
  expect((await must(site, 200, 'GET', '/api/v1/findings')).json).toMatchObject([{ severity: 'high' }])
  await must(site, 200, 'POST', `/api/v1/findings/${id}/status`, {
    headers: { 'if-match': String(changed.headers['etag']) },
    body: { to: 'open' },
  })
  expect((await must(site, 200, 'GET', `/api/v1/findings/${id}`)).json).toMatchObject({ status: 'open' })

  const recommendation = await must(site, 201, 'POST', `/api/v1/findings/${id}/recommendations`, {
    body: { text: 'Remember it.' },
  })
  expect(recommendation.json).toMatchObject({ text: 'Remember it.' })
  const plan = await must(site, 201, 'POST', `/api/v1/findings/${id}/action-plans`, {
    body: { title: 'Remember it', owner: { name: 'Bo', email: 'bo@example.com' }, due_date: '2030-01-01' },
  })
  let etag = String(plan.headers['etag'])
  for (const to of ['approved', 'in_progress']) {
    const path = `/api/v1/action-plans/${idSchema.parse(plan.json).id}/status`
    const moved = await must(site, 200, 'POST', path, { headers: { 'if-match': etag }, body: { to } })
    etag = String(moved.headers['etag'])
  }
  await must(site, 200, 'GET', `/api/v1/findings/${id}/log`)
  return (await must(site, 200, 'GET', `/api/v1/findings/${id}`)).json
}

const encode = (text: string): string => Buffer.from(text).toString('base64')

export const hash = (text: string): string => createHash('sha256').update(text).digest('hex')

/** A file is uploaded at once, and another one in two pieces. Gives what the receipt of that says. */
export async function uploadEvidence(site: Site): Promise<string> {
  const whole = await must(site, 201, 'POST', '/api/v1/evidence?file_name=a.txt', {
    headers: { 'content-type': 'text/plain' },
    body: Buffer.from('Seen.'),
  })
  expect(whole.json).toMatchObject({ sha256: hash('Seen.') })

  const tus = { 'tus-resumable': '1.0.0' }
  const begun = await must(site, 201, 'POST', '/api/v1/evidence/uploads', {
    headers: {
      ...tus,
      'upload-length': '10',
      'upload-metadata': `filename ${encode('b.txt')},filetype ${encode('text/plain')}`,
    },
  })
  const { pathname } = new URL(String(begun.headers['location']), site.gateway)
  const piece = (offset: number, text: string): Content => ({
    headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) },
    body: Buffer.from(text),
  })
  await must(site, 204, 'PATCH', pathname, piece(0, 'Seen '))
  const last = await send(site.gateway, pathname, { key: site.key, method: 'PATCH', ...piece(5, 'again') })
  expect([200, 201, 204], last.text).toContain(last.status)
  const [, payload = ''] = String(last.headers['postern-receipt']).split('.')
  return Buffer.from(payload, 'base64url').toString()
}

/** A connector reads a table twice: what is new is applied, then nothing has changed. Gives the people whom it has brought. */
export async function runConnector(site: Site): Promise<unknown> {
  const made = await must(site, 201, 'POST', '/api/v1/connectors', {
    body: { key: 'staff', name: 'Staff', type: 'csv', dataset: 'people' },
  })
  const { id } = idSchema.parse(made.json)
  for (const counts of [{ created: 2 }, { created: 0, unchanged: 2 }]) {
    const begun = await must(site, 202, 'POST', `/api/v1/connectors/${id}/runs`, {
      headers: { 'content-type': 'text/csv' },
      body: Buffer.from('external_id,name,email\np1,Ada,ada@example.com\np2,Bo,bo@example.com\n'),
    })
    const path = `/api/v1/sync-runs/${idSchema.parse(begun.json).id}`
    await expect
      .poll(async () => (await must(site, 200, 'GET', path)).json, { timeout: 30_000 })
      .toMatchObject({ status: 'succeeded', counts })
  }
  return (await must(site, 200, 'GET', '/api/v1/people')).json
}

/** The feed is read, and the key revoked. Gives the status of what is asked with it then. */
export async function revokeKey(site: Site): Promise<number> {
  expect((await list(site, '/api/v1/changes')).length).toBeGreaterThan(0)
  await site.asOperator(`/api/v1/api-keys/${site.keyId}/revoke`, {})
  return (await send(site.gateway, '/api/v1/whoami', { key: site.key })).status
}
