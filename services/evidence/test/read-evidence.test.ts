/**
 * @promise Data: Every reader of evidence is recorded before the first byte is sent.
 * @alsoShownBy test/end-to-end/large-upload.test.ts
 */

import { randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { custodyEventSchema, problemSchema } from '@postern/contracts'
import type { Principal } from '@postern/local-stack/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { findsMalware, person } from './people.ts'
import { anyBytes, contentDigest, sha256, startEvidence, uploaded, uploader } from './support.ts'

let service: Awaited<ReturnType<typeof startEvidence>>
beforeAll(async () => (service = await startEvidence({}, { scanner: findsMalware })))
afterAll(async () => await service.close())

const contentOf = (id: string) => `/api/v1/evidence-files/${id}/content`
const codeOf = (answer: { json: unknown }) => problemSchema.parse(answer.json).code

async function read(by: Principal, id: string, method: 'GET' | 'HEAD' = 'GET') {
  return await service.caller.call(by, method, contentOf(id))
}

/** Who has looked at a file, as its custody says. */
async function viewsOf({ tenantId }: Pick<Principal, 'tenantId'>, id: string) {
  const admin = person({ tenantId }, 'admin')
  const { json } = await service.caller.call(admin, 'GET', `/api/v1/evidence-files/${id}/custody`)
  const events = z.array(custodyEventSchema).parse(json)
  return events.filter(({ kind }) => kind === 'viewed').map(({ actor, detail }) => ({ actor, detail }))
}

/** Returns the path of the tenant's only file. */
async function pathOf({ tenantId }: Principal): Promise<string> {
  const [path = ''] = await service.filesIn(`blobs/${tenantId}`)
  return join(service.blobDirectory, 'blobs', tenantId, path)
}

describe('the bytes of a file', () => {
  test('cannot be read by any key, or by people without an auditing role', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'evidence')
    const all = ['read:findings', 'read:universe', 'write:evidence', 'write:findings', 'admin:sync']
    for (const by of [sender, { ...sender, scopes: all }, person(sender, 'viewer')]) {
      for (const method of ['GET', 'HEAD'] as const) expect((await read(by, id, method)).status).toBe(403)
      expect(codeOf(await read(by, id))).toBe('role_required')
    }
    expect((await fetch(`${service.url}${contentOf(id)}`)).status).toBe(401)
    expect(await viewsOf(sender, id)).toEqual([])
  })

  test('of another tenant return the same bytes as a missing file', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'evidence')
    const other = person(uploader(), 'auditor')
    const said = async (asked: string) => {
      const { status, text } = await read(other, asked)
      return [status, text.replaceAll(/"instance":"[^"]*"/g, '')]
    }
    expect(await said(id)).toEqual(await said(randomUUID()))
    expect(await said('no-id')).toEqual(await said(randomUUID()))
    expect((await said(id))[0]).toBe(404)
    expect(await viewsOf(sender, id)).toEqual([])
  })

  test('cannot be read in quarantine, even by administrators, until the file is released', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'malware')
    const admin = person(sender, 'admin')
    for (const by of [admin, person(sender, 'auditor')]) {
      const refused = await read(by, id)
      expect([refused.status, codeOf(refused)]).toEqual([409, 'conflict'])
      expect((await read(by, id, 'HEAD')).status).toBe(409)
    }
    expect(await viewsOf(sender, id)).toEqual([])
    const body = { reason: 'Looked at' }
    await service.caller.call(admin, 'POST', `/api/v1/evidence-files/${id}/release`, { body })
    expect(await read(admin, id)).toMatchObject({ status: 200, text: 'malware' })
  })

  test('are sent unchanged to auditors and administrators, and the custody records each reader', async () => {
    const sender = uploader()
    const name = 'Prüfung "2026".csv'
    const { id } = await uploaded(service.caller, sender, 'a,b\r\nü,\u0000', name)
    const [auditor, admin] = [person(sender, 'auditor'), person(sender, 'admin')]
    const answer = await read(auditor, id)
    expect(answer).toMatchObject({
      status: 200,
      text: 'a,b\r\nü,\u0000',
      headers: {
        'content-type': 'application/octet-stream',
        'content-disposition': `attachment; filename="Pr_fung _2026_.csv"; filename*=UTF-8''Pr%C3%BCfung%20%222026%22.csv`,
        'content-length': '9',
        'content-digest': contentDigest('a,b\r\nü,\u0000'),
        'repr-digest': contentDigest('a,b\r\nü,\u0000'),
        'x-content-type-options': 'nosniff',
      },
    })
    // A part is not offered, and whoever asks for one gets the whole.
    const part = await service.caller.call(admin, 'GET', contentOf(id), { headers: { range: 'bytes=1-2' } })
    expect([part.status, part.headers['accept-ranges'], part.text]).toEqual([200, undefined, answer.text])
    const actors = [auditor, admin].map(({ id: who, label }) => ({ type: 'user', id: who, label }))
    expect(await viewsOf(sender, id)).toEqual(actors.map((actor) => ({ actor, detail: { size_bytes: 9 } })))

    const head = await read(auditor, id, 'HEAD')
    const { date: _date, 'x-request-id': _id, 'keep-alive': _alive, connection: _connection, ...same } = answer.headers
    expect(head).toMatchObject({ status: 200, text: '', headers: same })
    expect(await viewsOf(sender, id)).toHaveLength(2)
  })

  test('are not sent if the access cannot be recorded', async () => {
    const sender = uploader()
    const { id } = await uploaded(service.caller, sender, 'evidence')
    const auditor = person(sender, 'auditor')
    await service.rows(`create function evidence.has_no_room() returns trigger language plpgsql
      as $$ begin raise exception 'no room' using errcode = '53100'; end $$`)
    await service.rows(`create trigger has_no_room before insert on evidence.custody_event
      for each row when (new.kind = 'viewed') execute function evidence.has_no_room()`)
    try {
      const refused = await read(auditor, id)
      expect([refused.status, codeOf(refused), refused.headers['retry-after']]).toEqual([
        503,
        'service_unavailable',
        '5',
      ])
      for (const name of ['content-digest', 'content-disposition']) expect(refused.headers[name]).toBeUndefined()
      expect(refused.text).not.toContain('evidence"')
    } finally {
      await service.rows('drop function evidence.has_no_room cascade')
    }
    expect(await viewsOf(sender, id)).toEqual([])
    expect((await read(auditor, id)).text).toBe('evidence')
  })

  test('are not sent if the store has lost or changed them', async () => {
    const sender = uploader()
    const auditor = person(sender, 'auditor')
    const { id } = await uploaded(service.caller, sender, 'evidence')
    const path = await pathOf(sender)
    await writeFile(path, 'EVIDENCE')
    const changed = await read(auditor, id)
    expect([changed.status, codeOf(changed), changed.headers['content-digest']]).toEqual([
      500,
      'internal_error',
      undefined,
    ])
    expect(service.logs.join('')).toContain(`"event":"content_damaged"`)
    const metrics = async () => await (await fetch(`${service.url}/internal/metrics`)).text()
    expect(await metrics()).toContain('postern_evidence_damaged_total{service="evidence"} 1\n')
    await rm(path)
    service.logs.length = 0
    expect((await read(auditor, id)).status).toBe(500)
    expect(service.logs.join('')).toContain(`"event":"content_damaged"`)
    expect(await metrics()).toContain('postern_evidence_damaged_total{service="evidence"} 2\n')
    expect(await viewsOf(sender, id)).toEqual([])
    await writeFile(path, 'evidence')
    expect((await read(auditor, id)).text).toBe('evidence')
  })

  test('break off before their end if the store has changed them, so that no client accepts them', async () => {
    const sender = uploader()
    const auditor = person(sender, 'auditor')
    const bytes = anyBytes(3 * 1024 * 1024)
    const { id } = await uploaded(service.caller, sender, bytes)
    bytes[5] = (bytes[5] ?? 0) ^ 1
    await writeFile(await pathOf(sender), bytes)
    await expect(read(auditor, id)).rejects.toThrow(/closed|terminated|reset|aborted/i)
    // Something of it was shown.
    expect(await viewsOf(sender, id)).toHaveLength(1)
    bytes[5] = (bytes[5] ?? 0) ^ 1
    await writeFile(await pathOf(sender), bytes)
    expect(await read(auditor, id)).toMatchObject({
      status: 200,
      headers: { 'content-length': String(bytes.length), 'content-digest': contentDigest(bytes) },
    })
    expect(sha256(bytes)).toHaveLength(64)
  })
})
