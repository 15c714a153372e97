import { randomUUID } from 'node:crypto'
import type { Principal } from '@postern/local-stack/testing'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { person } from './people.ts'
import { sha256, startEvidence, uploaded, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => (service = await startEvidence()))
afterAll(async () => await service.close())

const tus = { 'tus-resumable': '1.0.0' }

async function begin(principal: Principal, metadata = 'filename YS5jc3Y='): Promise<string> {
  const headers = { ...tus, 'upload-length': '2', 'upload-metadata': metadata }
  const answer = await service.caller.call(principal, 'POST', '/api/v1/evidence/uploads', { headers })
  return answer.headers['location'] ?? ''
}

async function append(principal: Principal, target: string, body: string) {
  const headers = { ...tus, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' }
  return await service.caller.call(principal, 'PATCH', target, { body, headers })
}

async function trailOf({ tenantId }: Principal) {
  return await service.rows(
    `select kind, detail, file_id, upload_id, actor_type, actor_id, actor_label
    from evidence.custody_event where tenant_id = $1 order by id`,
    [tenantId],
  )
}

const someone = (): Principal => ({ ...uploader(), id: randomUUID(), label: 'Evidence robot' })
const idIn = (target: string) => target.split('/').at(-1)

describe('the custody trail', () => {
  test('of a file has its sender, its hash and its upload', async () => {
    const principal = someone()
    const target = await begin(principal)
    const last = await append(principal, target, 'ab')
    const { id } = decodeJwt<{ id: string }>(last.headers['postern-receipt'] ?? '')
    const actor = { actor_type: 'api_key', actor_id: principal.id, actor_label: 'Evidence robot' }
    const upload_id = idIn(target)
    expect(await trailOf(principal)).toEqual([
      { kind: 'upload_begun', detail: { file_name: 'a.csv', size_bytes: 2 }, file_id: null, upload_id, ...actor },
      { kind: 'received', detail: { size_bytes: 2 }, file_id: id, upload_id, ...actor },
      { kind: 'hashed', detail: { sha256: sha256('ab') }, file_id: id, upload_id, ...actor },
    ])
  })

  test('of an upload without a file says whether its sender cancelled it or it was rejected', async () => {
    const principal = someone()
    const targets = [await begin(principal), await begin(principal)]
    await service.caller.call(principal, 'DELETE', targets[0] ?? '', { headers: tus })
    expect((await append(principal, targets[1] ?? '', '#!')).status).toBe(415)
    const trail = (await trailOf(principal)).filter(({ kind }) => kind === 'upload_given_up')
    expect(trail).toMatchObject([
      { detail: { reason: 'by_sender' }, file_id: null, upload_id: idIn(targets[0] ?? '') },
      { detail: { reason: 'unsupported_media_type' }, file_id: null, upload_id: idIn(targets[1] ?? '') },
    ])
  })

  test('of an expired upload names no actor', async () => {
    const principal = someone()
    const target = await begin(principal)
    await service.rows("update evidence.upload set expires_at = now() - interval '1 s' where id = $1", [idIn(target)])
    await begin(principal)
    expect((await trailOf(principal))[1]).toMatchObject({
      kind: 'upload_given_up',
      detail: { reason: 'expired' },
      upload_id: idIn(target),
      actor_label: 'Evidence service',
    })
  })

  test.each([
    ['a file event without a file', 'received', null, randomUUID()],
    ['an upload event without an upload', 'upload_begun', null, null],
    ['an unknown kind', 'lost', null, randomUUID()],
  ])('cannot contain %s', async (_what, kind, fileId, uploadId) => {
    const insert = `insert into evidence.custody_event (tenant_id, kind, file_id, upload_id, actor_type, actor_id, actor_label, request_id)
      values ($1, $2, $3, $4, 'api_key', 'k', '', 'r')`
    await expect(service.rows(insert, [randomUUID(), kind, fileId, uploadId])).rejects.toMatchObject({ code: '23514' })
  })

  test('never changes, even by the owner of the database', async () => {
    const principal = someone()
    await uploaded(service.caller, principal, 'evidence')
    for (const statement of [
      `update evidence.custody_event set kind = 'hashed' where tenant_id = $1`,
      'delete from evidence.custody_event where tenant_id = $1',
    ]) {
      await expect(service.rows(statement, [principal.tenantId])).rejects.toThrow('never changed or deleted')
    }
    expect(await trailOf(principal)).toHaveLength(2)
  })
})

const decisions = ['release', 'purge', 'hold', 'lift-hold'] as const

test('requests about stored files return 503 in every format while PostgreSQL is unavailable', async () => {
  const away = await startEvidence({ POSTERN_DATABASE_URL: 'postgres://nobody:nothing@127.0.0.1:1/none' })
  try {
    const admin = person(uploader(), 'admin')
    const files = '/api/v1/evidence-files'
    const policy = '/api/v1/evidence-policy'
    const away503 = { code: 'service_unavailable', detail: 'Try again in a moment.' }
    for (const target of [files, `${files}/${randomUUID()}/custody`]) {
      for (const accept of ['application/json', 'application/x-ndjson', 'text/csv']) {
        const answer = await away.caller.call(admin, 'GET', target, { headers: { accept } })
        expect([answer.status, answer.json], `${target} as ${accept}`).toMatchObject([503, away503])
        expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
      }
    }
    const requests = [
      ['GET', `${files}/${randomUUID()}`, {}],
      ['GET', policy, {}],
      ['PATCH', policy, { body: { retention_years: 8 }, headers: { 'if-match': '"1"' } }],
      ...decisions.map(
        (verb) => ['POST', `${files}/${randomUUID()}/${verb}`, { body: { reason: 'Looked at' } }] as const,
      ),
      ['POST', `${files}/${randomUUID()}/review`, { body: { verdict: 'reviewed', reason: 'Looked at' } }],
    ] as const
    for (const [method, target, options] of requests) {
      const answer = await away.caller.call(admin, method, target, options)
      expect([answer.status, answer.json], `${method} ${target}`).toMatchObject([503, away503])
    }
    const attached = await away.caller.call(uploader(), 'POST', `/api/v1/evidence/${randomUUID()}/attachments`, {
      body: { test_procedures: [randomUUID()] },
    })
    expect([attached.status, attached.json]).toMatchObject([503, away503])
  } finally {
    await away.close()
  }
})
